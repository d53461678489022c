// Tag: a text in, labels with confidence out, and behind each label the words and the training rows that led to it.

import { clearProblem, post, showProblem } from "/page/api.js";
import { $, bar, el, labelAddress, percent, uriLink } from "/page/dom.js";
import { decisionButtons, endFeedback, listenToFeedback, startFeedback } from "/page/feedback.js";
import { listenToFiles } from "/page/files.js";

const TEXT = "sldl-text";

let ready = false;
let tagged = "";
let shown = [];
let facts = null;

export function showTag(about) {
  facts = about;
  if (ready) return;
  ready = true;
  if (!facts.takes.includes("text")) {
    $("tag-status").textContent =
      `This model accepts feature vectors only: it takes vectors of ${facts.n_features} numbers, which programs send to /v1/predict.`;
    for (const part of ["text", "tag-button", "k", "clear", "file", "file-button"]) $(part).disabled = true;
    return;
  }
  $("text").value = sessionStorage.getItem(TEXT) ?? "";
  $("text").addEventListener("input", remember);
  $("tag-form").addEventListener("submit", tag);
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("tag-form").requestSubmit();
  });
  $("clear").addEventListener("click", clear);
  $("copy").addEventListener("click", copy);
  $("example").hidden = facts.example === null;
  $("example").addEventListener("click", () => {
    $("text").value = facts.example;
    remember();
    $("tag-form").requestSubmit();
  });
  listenToFiles(facts);
  listenToFeedback(facts);
}

// A reload of the page keeps the text; it is forgotten with the tab.
function remember() {
  try {
    sessionStorage.setItem(TEXT, $("text").value);
  } catch {
    sessionStorage.removeItem(TEXT); // a text can be too long to be kept
  }
}

function clear() {
  $("text").value = "";
  remember();
  clearProblem();
  nothing("Nothing tagged yet.");
  $("text").focus();
}

function nothing(status) {
  shown = [];
  $("labels").replaceChildren();
  $("copy").hidden = true;
  $("tag-status").textContent = status;
  endFeedback();
}

// The labels above the threshold, or all where none is, a line each.
async function copy() {
  const above = shown.filter((label) => label.chosen !== false);
  const lines = (above.length ? above : shown).map(({ label, uri }) => (uri ? `${label}\t${uri}` : label));
  try {
    await navigator.clipboard.writeText(lines.join("\n"));
    $("copy").textContent = "Copied";
  } catch {
    $("copy").textContent = "Not allowed here";
  }
  setTimeout(() => ($("copy").textContent = "Copy"), 2000);
}

async function tag(event) {
  event?.preventDefault();
  clearProblem();
  const text = $("text").value;
  if (!text.trim()) return nothing("Enter some text first.");
  if (new Blob([text]).size > 0.95 * facts.max_bytes)
    return nothing(`This text is too long (limit ${(facts.max_bytes / 1e6).toFixed(0)} MB).`);
  $("tag-button").disabled = true;
  try {
    const answer = await post("/v1/predict", { input: text, k: Number($("k").value) });
    tagged = text;
    showLabels(answer.predictions[0]);
  } catch (error) {
    nothing("Nothing tagged.");
    showProblem(error, error.code === "unreachable" ? tag : null);
  } finally {
    $("tag-button").disabled = false;
  }
  return undefined;
}

function showLabels({ features, informative, labels }) {
  shown = labels;
  startFeedback(tagged, labels);
  $("copy").hidden = !labels.length;
  const chosen = labels.filter((label) => label.chosen !== false);
  const others = labels.filter((label) => label.chosen === false);
  const calibrated = labels.some((label) => label.probability !== null);
  $("tag-status").textContent =
    informative === 0
      ? "No known word: the model recognizes none of these words, or only words that are in every text. The labels below are a guess."
      : `${features === 1 ? "1 word recognized" : `${features} words recognized`}. ` +
        `${chosen.length} of ${labels.length} labels ${chosen.length === 1 ? "is" : "are"} above the threshold. ` +
        "Open one to see why.";
  const largest = Math.max(...labels.map((label) => label.score), 1e-9);
  const line = (label) => labelLine(label, calibrated ? label.probability : label.score / largest, calibrated);
  const divider = others.length ? el("li", { class: "cut" }, chosen.length ? "Less likely" : "None is likely") : null;
  $("labels").replaceChildren(
    ...[...chosen.map(line), divider, ...others.map(line)].filter((part) => part !== null),
  );
}

function labelLine(label, share, calibrated) {
  const region = el("div", { class: "reasons", hidden: true });
  const shown = calibrated ? percent(share) : label.score.toPrecision(2);
  const button = el(
    "button",
    { class: "label", type: "button", "aria-expanded": "false", "data-label": label.label },
    el("span", { class: "name" }, label.label),
    bar(share),
    el("span", { class: "share" }, shown),
  );
  button.addEventListener("click", () => toggle(button, region, label.label));
  const line = el("div", { class: "label-line" }, button, decisionButtons(label.label));
  return el("li", { class: label.chosen === false ? "less" : null }, line, region);
}

async function toggle(button, region, label) {
  const open = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(open));
  region.hidden = !open;
  if (!open || region.childElementCount) return;
  clearProblem();
  try {
    region.append(...reasons(await post("/v1/explain", { input: tagged, label })));
  } catch (error) {
    button.setAttribute("aria-expanded", "false");
    region.hidden = true;
    showProblem(error);
  }
}

function reasons(found) {
  const parts = [];
  if (found.terms.length) {
    parts.push(el("h3", {}, "Words"));
    if (found.terms.some((term) => term.words.length)) parts.push(reading(found.terms));
    parts.push(el("p", { class: "quiet" }, "Words that raised or lowered this label's score:"), terms(found.terms));
  }
  if (found.related.length)
    parts.push(
      el("h3", {}, "Other candidates that share examples with it"),
      el(
        "ul",
        { class: "arrows" },
        found.related.map((other) =>
          el(
            "li",
            {},
            el("a", { href: labelAddress(other.label) }, other.label),
            el("span", { class: "quiet" }, ` ${other.rows_with_both} of its ${other.rows} training examples carry both`),
          ),
        ),
      ),
    );
  parts.push(el("h3", {}, "Similar training examples"));
  if (found.neighbors.length) parts.push(examples(found));
  else parts.push(el("p", { class: "quiet" }, "None of the most similar training examples carries it."));
  parts.push(el("p", {}, el("a", { href: labelAddress(found.label) }, "Show on the map")));
  if (found.uri) parts.push(el("p", {}, uriLink(found.uri)));
  return parts;
}

// The text itself, with the words that count marked by how much they do.
function reading(found) {
  const weight = new Map(); // a word may stand behind several terms
  for (const term of found)
    for (const word of term.words) weight.set(word, (weight.get(word) ?? 0) + term.contribution);
  const largest = Math.max(...[...weight.values()].map(Math.abs), 1e-12);
  const mark = (piece) => {
    if (!weight.has(piece)) return piece;
    const made = el("mark", { class: weight.get(piece) < 0 ? "against" : null }, piece);
    made.style.setProperty("--weight", (0.15 + (0.6 * Math.abs(weight.get(piece))) / largest).toFixed(2));
    return made;
  };
  // Words that are joined, as in vision-language, are known together or each by itself.
  const pieces = tagged
    .split(/([\p{L}\p{N}_][\p{L}\p{M}\p{N}_'’-]*)/u)
    .flatMap((piece) => (weight.has(piece) ? mark(piece) : piece.split(/([\p{L}\p{M}\p{N}_]+)/u).map(mark)));
  return el("p", { class: "reading" }, ...pieces);
}

function terms(found) {
  const largest = Math.max(...found.map((term) => Math.abs(term.contribution)), 1e-12);
  return el(
    "dl",
    { class: "terms" },
    found.flatMap((term) => [
      el("dt", {}, term.words.length ? term.words.join(", ") : term.feature),
      el("dd", {}, bar(Math.abs(term.contribution) / largest, term.contribution < 0 ? "against" : "")),
      el("dd", { class: "share" }, (term.contribution < 0 ? "−" : "+") + Math.abs(term.contribution).toFixed(3)),
    ]),
  );
}

function examples(found) {
  return el(
    "ol",
    { class: "examples" },
    found.neighbors.map((neighbor) =>
      el(
        "li",
        {},
        el("span", { class: "quiet" }, `Row ${neighbor.row}, similarity ${neighbor.similarity.toFixed(2)}`),
        neighbor.text ? el("p", { class: "example" }, neighbor.text) : null,
        el(
          "span",
          { class: "chips" },
          neighbor.labels.map((name) =>
            el("a", { href: labelAddress(name), class: name === found.label ? "same" : null }, name),
          ),
        ),
      ),
    ),
  );
}
