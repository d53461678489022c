// Tag: a text in, labels with confidence out, and behind each label the words and the training rows that led to it.

import { clearProblem, post, showProblem } from "/page/api.js";
import { $, bar, el, labelAddress, percent } from "/page/dom.js";

let ready = false;
let tagged = "";

export function showTag(facts) {
  if (ready) return;
  ready = true;
  if (!facts.takes.includes("text")) {
    $("tag-status").textContent =
      `This model accepts feature vectors only: it takes vectors of ${facts.n_features} numbers, which programs send to /v1/predict.`;
    for (const part of [$("text"), $("tag-button"), $("k")]) part.disabled = true;
    return;
  }
  $("tag-form").addEventListener("submit", tag);
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("tag-form").requestSubmit();
  });
}

async function tag(event) {
  event.preventDefault();
  clearProblem();
  const text = $("text").value;
  $("tag-button").disabled = true;
  try {
    const answer = await post("/v1/predict", { input: text, k: Number($("k").value) });
    tagged = text;
    showLabels(answer.predictions[0]);
  } catch (error) {
    $("labels").replaceChildren();
    $("tag-status").textContent = "Nothing tagged.";
    showProblem(error);
  } finally {
    $("tag-button").disabled = false;
  }
}

function showLabels({ features, labels }) {
  const chosen = labels.filter((label) => label.chosen !== false);
  const others = labels.filter((label) => label.chosen === false);
  const calibrated = labels.some((label) => label.probability !== null);
  $("tag-status").textContent =
    features === 0
      ? "The model knows none of these words: these are simply the most frequent labels."
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
  return el("li", { class: label.chosen === false ? "less" : null }, button, region);
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
    parts.push(el("p", { class: "quiet" }, `What each adds to the ${found.terms_meaning}:`), terms(found.terms));
  }
  parts.push(el("h3", {}, "Similar training examples"));
  if (found.neighbors.length) parts.push(examples(found));
  else parts.push(el("p", { class: "quiet" }, "None of the nearest training rows carries it."));
  parts.push(el("p", {}, el("a", { href: labelAddress(found.label) }, "Show on the map")));
  return parts;
}

// The text itself, with the words that count marked by how much they do.
function reading(found) {
  const weight = new Map();
  for (const term of found) for (const word of term.words) weight.set(word, term.contribution);
  const largest = Math.max(...[...weight.values()].map(Math.abs), 1e-12);
  const pieces = tagged.split(/([\p{L}\p{N}_][\p{L}\p{N}_'’-]*)/u).map((piece) => {
    if (!weight.has(piece)) return piece;
    const made = el("mark", { class: weight.get(piece) < 0 ? "against" : null }, piece);
    made.style.setProperty("--weight", (0.15 + (0.6 * Math.abs(weight.get(piece))) / largest).toFixed(2));
    return made;
  });
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
