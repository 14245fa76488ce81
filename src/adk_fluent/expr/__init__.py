"""The public interface: expressions, the operators that join them, and the methods that run them.

An expression is a frozen handle on an IR node. Read `Expr.__rshift__` and `lift` in `base` first, which has
the operators and the expressions that they make; `handle` is below it. `agent`, `workflow` and `steps` are
other kinds of expressions; `transforms`, `context`, `tools` and `artifacts` are the factories `S`, `C`, `T`
and `A`. `terminals` has the methods that run an expression; `expression_run` is one call of them, and
`conversations` uses a run for more than one question. `arguments` checks what users give to all of these.
This package may import all packages below it; only a run imports ADK.
"""
