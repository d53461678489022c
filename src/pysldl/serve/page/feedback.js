// Feedback: which labels a person accepts, rejects and adds; kept by the service, or here until it is downloaded.

import { clearProblem, post, showProblem } from "/page/api.js";
import { $, count, download, el } from "/page/dom.js";
import { labelSearch } from "/page/search.js";

const SAID = {
  download: "Saved in this browser. Download the file, and give it to sldl update.",
  file: "Saved.",
  learn: "The model has learned this; it answers with it in a moment.",
};

let facts = null;
let current = null; // the text, its labels, and what the person says of them
let known = new Map();

export function listenToFeedback(about) {
  facts = about;
  if (facts.feedback === null) return;
  labelSearch($("add-label"), $("add-found"), (found) => {
    known.set(found.label, found.uri);
    add();
  });
  $("add-button").addEventListener("click", add);
  $("add-label").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.defaultPrevented) {
      event.preventDefault();
      add();
    }
  });
  $("feedback").addEventListener("submit", save);
  $("feedback-download").addEventListener("click", () => {
    const lines = kept().map((row) => JSON.stringify(row) + "\n");
    download("feedback.jsonl", lines.join(""), "application/x-ndjson");
  });
  showKept();
}

// A text was tagged: nothing is said of its labels yet.
export function startFeedback(text, labels) {
  current = { text, labels, decided: new Map(), added: [] };
  known = new Map(labels.map(({ label, uri }) => [label, uri]));
  $("added").replaceChildren();
  $("feedback-status").textContent = "";
  $("feedback").hidden = facts.feedback === null;
}

export function endFeedback() {
  current = null;
  $("feedback").hidden = true;
}

// The two buttons beside a label; null where nobody could take the feedback.
export function decisionButtons(label) {
  if (facts.feedback === null) return null;
  const button = (word, sign, value) =>
    el(
      "button",
      { type: "button", class: "decision", "aria-pressed": "false", "aria-label": `${word} ${label}`, title: word },
      sign,
    );
  const [accept, reject] = [button("Accept", "✓", true), button("Reject", "✗", false)];
  const decide = (value) => {
    if (current.decided.get(label) === value) current.decided.delete(label);
    else current.decided.set(label, value);
    accept.setAttribute("aria-pressed", String(current.decided.get(label) === true));
    reject.setAttribute("aria-pressed", String(current.decided.get(label) === false));
  };
  accept.addEventListener("click", () => decide(true));
  reject.addEventListener("click", () => decide(false));
  return el("span", { class: "decisions" }, accept, reject);
}

function add() {
  const label = $("add-label").value.trim();
  if (!label || !current) return;
  $("add-label").value = "";
  if (current.added.includes(label)) return;
  current.added.push(label);
  const line = el("li", {}, label, " ");
  const remove = el("button", { type: "button", class: "remove", "aria-label": `Remove ${label}` }, "×");
  remove.addEventListener("click", () => {
    current.added = current.added.filter((one) => one !== label);
    line.remove();
  });
  line.append(remove);
  $("added").append(line);
  $("feedback-status").textContent = known.has(label) ? "" : `"${label}" is a new label.`;
}

// Labels above the threshold count unless they are rejected, others when they are accepted.
function chosen() {
  const { labels, decided, added } = current;
  const own = labels.filter(({ label, chosen: above }) => decided.get(label) ?? above === true).map(({ label }) => label);
  const named = (label) => known.get(label) ?? label;
  return {
    labels: [...new Set([...own, ...added])].map(named),
    rejected: labels.filter(({ label }) => decided.get(label) === false).map(({ label }) => named(label)),
  };
}

async function save(event) {
  event.preventDefault();
  if (!current) return;
  clearProblem();
  const row = chosen();
  if (!row.labels.length) {
    $("feedback-status").textContent = "Accept or add at least one label.";
    return;
  }
  $("feedback-button").disabled = true;
  $("feedback-status").textContent = facts.feedback === "learn" ? "The model is learning …" : "";
  try {
    if (facts.feedback === "download") keep({ text: current.text, ...row });
    else await post("/v1/feedback", { input: current.text, ...row });
    $("feedback-status").textContent = SAID[facts.feedback];
  } catch (error) {
    $("feedback-status").textContent = "Not saved.";
    showProblem(error);
  } finally {
    $("feedback-button").disabled = false;
  }
}

const place = () => `sldl-feedback-${facts.name}`;

function kept() {
  try {
    return JSON.parse(localStorage.getItem(place()) ?? "[]");
  } catch {
    return [];
  }
}

function keep(row) {
  localStorage.setItem(place(), JSON.stringify([...kept().filter((one) => one.text !== row.text), row]));
  showKept();
}

function showKept() {
  const n = kept().length;
  $("feedback-download").hidden = facts.feedback !== "download" || !n;
  $("feedback-download").textContent = n === 1 ? "Download feedback (1 text)" : `Download feedback (${count(n)} texts)`;
}
