"use strict";
// Everything that comes from the pipeline is put in as text, never as HTML.
const facts = JSON.parse(document.getElementById("facts").textContent);
const panel = document.getElementById("panel");
const picture = document.getElementById("picture");
const svg = picture.querySelector("svg");
const boxes = new Map([...svg.querySelectorAll(".step")].map((box) => [box.dataset.name, box]));
const steps = new Map(facts.steps.map((step) => [step.name, step]));
const WORDS = { error: "Error", warn: "Warning", info: "Note", ok: "Holds" };

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function count(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

function link(name) {
  if (!boxes.has(name)) return name;
  return element("button", { type: "button", class: "link", onclick: () => select(name, true) }, name);
}

function listed(names) {
  return names.flatMap((name, index) => (index ? [", ", link(name)] : [link(name)]));
}

const MANY = 12;
function named(words, names, look) {
  if (!names.length) return [];
  if (names.length <= MANY) return [element("p", look, `${words} `, ...listed(names))];
  const title = element("summary", {}, `${words} ${names.length} authors`);
  return [element("details", look, title, element("p", {}, ...listed(names)))];
}

function section(title, ...children) {
  return [element("h3", {}, title), ...children];
}

function issueCard(issue, withStep) {
  const where = withStep && issue.step ? ` · ${issue.step}` : "";
  const card = [
    element("span", { class: "severity" }, `${WORDS[issue.severity]}${where}`),
    element("span", {}, issue.message),
    ...(issue.hint ? [element("span", { class: "hint" }, issue.hint)] : []),
  ];
  const look = { class: `issue ${issue.severity}`, "data-code": issue.code };
  if (!withStep || !boxes.has(issue.step)) return element("div", look, ...card);
  return element("button", { ...look, type: "button", onclick: () => select(issue.step, true) }, ...card);
}

function issueList(issues, withStep, none) {
  const cards = issues.filter((issue) => issue.severity !== "ok").map((issue) => issueCard(issue, withStep));
  const fine = issues.filter((issue) => issue.severity === "ok").map((issue) => issueCard(issue, withStep));
  const parts = cards.length ? cards : [element("p", { class: "ok" }, none)];
  if (fine.length) {
    const title = element("summary", {}, `${count(fine.length, "check")} passed`);
    parts.push(element("details", {}, title, ...fine));
  }
  return parts;
}

function overview() {
  panel.replaceChildren(
    element("h2", {}, "Diagnostics"),
    element("p", { class: "faint" }, "Choose a step to see what reaches it."),
    ...issueList(facts.issues, true, "Nothing to report."),
  );
}

function conversation(step) {
  const seen = step.conversation;
  const sure = seen.sees.filter((author) => author.certain).map((author) => author.name);
  const perhaps = seen.sees.filter((author) => !author.certain).map((author) => author.name);
  return section(
    "Conversation",
    element("p", {}, seen.summary),
    ...named("sees", sure, {}),
    ...named("may see", perhaps, {}),
    ...named("never sees", seen.hides, { class: "faint" }),
  );
}

function keyRead(read) {
  const source = read.writers.length ? ["written by ", ...listed(read.writers)] : ["no step writes it before"];
  const words = read.carries.length ? [", the words of ", ...listed(read.carries)] : [];
  const place = read.place ? ` ${read.place},` : "";
  return element("li", {}, element("code", {}, read.key), `${place} `, ...source, ...words);
}

function keyWritten(write) {
  const readers = write.readers.length ? ["read by ", ...listed(write.readers)] : ["no later step reads it"];
  return element("li", {}, element("code", {}, write.key), " ", ...readers);
}

function details(step) {
  const issues = step.issues.map((index) => facts.issues[index]);
  const parts = [
    element("button", { type: "button", class: "link back", onclick: clear }, "All diagnostics"),
    element("h2", {}, step.name),
    element("p", { class: "faint" }, [step.kind, step.about].filter(Boolean).join(" — ")),
  ];
  if (step.heard) parts.push(element("p", {}, step.heard));
  parts.push(...step.notes.map((note) => element("p", { class: "warn" }, note)));
  if (step.conversation) parts.push(...conversation(step));
  if (step.state.length) parts.push(...section("State", element("ul", {}, ...step.state.map(keyRead))));
  else if (step.prompt) parts.push(...section("State", element("p", { class: "faint" }, "It is shown none.")));
  if (step.prompt) {
    parts.push(
      ...section("Prompt", element("pre", {}, step.prompt.text || "(no instruction)")),
      element("p", { class: "faint" }, `Tools: ${step.prompt.tools}`),
      element("p", { class: "faint" }, `Constraint: ${step.prompt.constraint}`),
    );
  }
  if (step.writes.length || step.after) {
    const after = step.after ? [element("p", {}, step.after)] : [];
    parts.push(...section("Writes", ...after, element("ul", {}, ...step.writes.map(keyWritten))));
  }
  parts.push(...section("Diagnostics", ...issueList(issues, false, "Nothing to report.")));
  return parts;
}

function mark(name) {
  for (const [other, box] of boxes) {
    box.classList.toggle("selected", other === name);
    box.setAttribute("aria-pressed", String(other === name));
  }
  svg.classList.toggle("focused", name !== null);
  for (const line of svg.querySelectorAll(".data, .transfer")) {
    line.classList.toggle("near", line.dataset.source === name || line.dataset.target === name);
  }
}

function select(name, jump) {
  mark(name);
  panel.replaceChildren(...details(steps.get(name)));
  panel.scrollTop = 0;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
  if (jump) {
    boxes.get(name).scrollIntoView({ block: "center", inline: "center" });
    boxes.get(name).focus({ preventScroll: true });
  }
}

function clear() {
  mark(null);
  overview();
  history.replaceState(null, "", "#");
}

const natural = svg.viewBox.baseVal;
let scale = Math.max(0.4, Math.min(1, (picture.clientWidth - 24) / natural.width));
function zoom(factor) {
  scale = Math.min(3, Math.max(0.2, scale * factor));
  svg.setAttribute("width", natural.width * scale);
  svg.setAttribute("height", natural.height * scale);
}

for (const [name, box] of boxes) {
  box.addEventListener("click", () => select(name, false));
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    select(name, false);
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") clear();
});
for (const kind of ["control", "data"]) {
  document.getElementById(kind).addEventListener("change", (event) => {
    svg.classList.toggle(`no-${kind}`, !event.target.checked);
  });
}
document.getElementById("smaller").addEventListener("click", () => zoom(0.8));
document.getElementById("larger").addEventListener("click", () => zoom(1.25));

const found = (severity) => facts.issues.filter((issue) => issue.severity === severity).length;
document.getElementById("summary").textContent = [
  count(boxes.size, "step"),
  count(found("error"), "error"),
  count(found("warn"), "warning"),
].join(", ");
zoom(1);
const wanted = decodeURIComponent(location.hash.slice(1));
if (boxes.has(wanted)) select(wanted, true);
else overview();
