"""The exact outputs of example programs without a key."""

PRINTS = {
    "distributing": """\
reader: in (), out ('amounts',), hears []
checker: in ('amounts',), out ('verdict',), hears ['reader']
writer: in ('verdict',), out (), hears []
Dear Ann, 7 is right. | True True
what reaches the writer: {'verdict': '7 is right'} 113 bytes
""",
    "adopting": """\
found: billing reads {taem} in instruction
errors in the mixed pipeline: 0
said: We are on it. | ticket: No sound
pipeline = Agent("technical", "gemini-2.5-flash").instruct("Help.").tools(open_ticket)
""",
    "approval": """\
today: Publish this? We sell tea by drone now.
tomorrow: Published, with a picture.
asked again: ['publisher']
""",
    "artifacts": """\
warnings: ()
publish saved {'sales.csv': 0}
save saved {'chart.png': 0}
publish_2 saved {'report.md': 0}
publish_3 saved {'report.md': 1}
analyst was told: Sum up tea,sold
critic was shown: ['Artifact chart.png is:', 'a picture']
critic was shown: ['Artifact report.md is:', '# Green tea leads']
critic was shown: ['How are sales?']
files: ['chart.png', 'report.md', 'sales.csv'] latest version: 1
""",
    "baseline": """\
as it is: 100% pass. Nothing changed; 3 cases compared.
a shorter prompt: 0% pass. It would have failed CI: True
regressed: refund  3/3 → 0/3 runs pass (p = 0.05); state 1 → 0 – state['topic'] is 'It is about a refund.' at the end, not 'refund'
regressed: invoice  3/3 → 0/3 runs pass (p = 0.05); state 1 → 0 – state['topic'] is 'It is about a invoice.' at the end, not 'invoice'
regressed: other  3/3 → 0/3 runs pass (p = 0.05); state 1 → 0 – state['topic'] is 'It is about a other.' at the end, not 'other'
3 regressed; 3 cases compared.
""",
    "context": """\
writer may see ['user']
critic may see ['user', 'writer']
lawyer may see ['user', 'writer']
editor may see ['critic', 'lawyer', 'user', 'writer']
the lawyer is sent: ['You took 12 EUR from [CARD]. Why?']
answer: Dear Ann, your card was charged once, with 12 EUR.
""",
    "conversation": """\
A green tea, gladly.
And cake for two.
Only one cake, then.
Welcome back! messages: 4
""",
    "failure_to_test": """\
failed: Step 'as_it_was' raised ValueError: could not convert string to float: '12,50'.
kept: 1 model call
the test before: fails: Step 'as_it_was' raised ValueError: could not convert string to float: '12,50'.
the test after: passes
""",
    "fallback": """\
Der Tee ist warm. (from small)
Der Tee ist heiß. (from careful)
""",
    "hundred_agents": """\
checked: 173 reads are fine, 0 warnings
estimated: 100 agents, $0.0026 a claim
tested: a motor claim
traced: 88 steps
recorded: 16 model calls, 16 events
replayed: the same
""",
    "injection": """\
Tea costs 3.
""",
    "invoices": """\
invoice.pdf: R-117 of 2030-01-08, 3 lines, 26.40 EUR
a person is asked: receipt.png: the lines do not add up to 41.00. Book it all the same?
receipt.png: not booked
""",
    "map_over": """\
problems: 0
- Ann sails to
- She learns how
- She comes home
A woman crosses the sea for tea, and brings it home.
""",
    "middleware": """\
editor: no connection, asking again
spent: {'writer': 1, 'editor': 1}
A letter.
Write to the customer.
""",
    "nightly_batch": """\
Monday: 890 sorted for all of $0.004, 110 left
  {'complaint': 297, 'praise': 296, 'question': 297}
Tuesday: 110 sorted for less than $0.010, 0 left
  {'complaint': 36, 'praise': 38, 'question': 36}
""",
    "prompts": """\
You sell tea.

Task:
Recommend one tea, in one sentence.

Constraints:
Name its price.
Never mention coffee.
versions differ: True
{}: the club is told: False
{'user:club': True}: the club is told: True
Take the Darjeeling, at 9 EUR.
""",
    "recording": """\
(the shop is asked for A7)
<Recording of desk: 1 run, 4 events, 3 model calls, 1 tool call>
unchanged: No difference: the same 4 events.
changed: Agent 'editor', call 1: its request is not the one that was recorded (prompt changed).
  prompt:
    - Make this friendly: {answer}
    + Make this short: {answer}
from there on: A7: on its way.
""",
    "retrieval": """\
> How long may I work from abroad?
You may work from another country for up to thirty days in a year. Tell your lead two weeks before. (travel.md)
> Who pays when my laptop breaks?
A laptop that breaks is repaired or replaced by the company, unless it fell into water twice. (equipment.md)
> When is my salary paid?
Your salary is paid on the last working day of the month. Expenses come with it, if you sent them by the 20th. (money.md)
""",
    "service": """\
> Hello
text: "Good "
text: "day!"
> My order A7 for 12.50 EUR never came. Please pay it back.
approve: {'name': 'refund', 'args': {'order': 'A7', 'euros': 12.5}}
200 {"text":"I have paid you 12.50 EUR back."}
409 {"error":"There is no session 'bob' of user 'user' in app 'adk_fluent_app'. Pass the backend, session_service and user_id that the run had."}
""",
    "slack_bot": """\
Ev1 [('100.1', 'The shop answers slowly since nine.')]
Ev1 []
Ev2 [('100.1', 'Run restart(service="shop")?')]
clicked approve ['Done: shop is up again.']
""",
    "streaming_edges": """\
translator gets 'It rained. Then'
writer goes on
translator gets 'it stopped. The'
translator gets 'sun came out.'
IT RAINED. THEN IT STOPPED. THE SUN CAME OUT.
""",
    "tools": """\
Go to a museum. ['found']
""",
    "typed_state": """\
before a run: refunds reads {shure} in instruction
state: {'letter': 'Dear Ann, ...', 'sure': 0.9, 'topic': 'refund', 'user:tier': 'gold'}
refused: Agent 'triage' wrote what does not fit: Desk.sure (session key 'sure') takes float, not 90: it should be less than or equal to 1.
""",
}
SAYS = {
    "pytest_suite": ("6 passed, 1 deselected",),
    "remote_pair": """\
found desk, which can: desk, agent, refunds
order 7: The money for your teapot is on its way.
the desk asks: Refund order 101? -> yes
order 101: The money for your teapot is on its way.
without the token: Call us.
""",
    "support": ("reply=",),
    "cost": ("prices as of the candidates", "billing asked gemini-2.5-pro"),
}
"""What is in the output of those that do not print the same each time, or print more than need be compared."""
