// Relations: find a label on the map, see which labels it is related to and how surely, and go on from there.

import { get, showProblem } from "/page/api.js";
import { $, bar, count, csvLine, download, el, labelAddress, percent, rows, uriLink } from "/page/dom.js";
import { LabelMap } from "/page/map.js";
import { labelSearch } from "/page/search.js";

const SHOWN = 8;
const HEADINGS = {
  out: { implies: "Implies", "often comes with": "Often comes with", "is related to": "Is related to" },
  in: {
    implies: "Is implied by",
    "often comes with": "Rarer labels that often come with it",
    "is related to": "Rarer labels related to it",
  },
};

let map = null;
let column = null;
let loading = null;
let questions = 0;

export async function showRelations(facts, label) {
  if (map && map.data.version !== facts.version) loading = null; // the service has a newer model by now
  loading ??= load();
  await loading;
  map.resize();
  if (label === null) {
    map.select(-1, undefined, undefined, false);
    $("chosen").replaceChildren(note(map.data));
    return;
  }
  await choose(label);
}

async function load() {
  try {
    const data = await get("/v1/map");
    column = new Map(data.labels.map((name, i) => [name, i]));
    if (!map) {
      const go = (i) => (location.hash = i < 0 ? "relations" : labelAddress(map.data.labels[i]));
      map = new LabelMap($("map"), { onSelect: go });
      map.resize();
      $("map").map = map;
      listen();
    }
    map.setData(data);
    $("links-choice").hidden = !data.narrower.length;
    $("map").setAttribute("aria-label", `Map of ${count(data.labels.length)} labels`);
  } catch (error) {
    loading = null;
    throw error;
  }
}

function note(data) {
  const shown =
    data.labels.length < data.total
      ? `The ${count(data.labels.length)} most frequent of ${count(data.total)} labels`
      : `${count(data.total)} labels`;
  const meaning =
    "An arrow goes from a label to a more frequent one that its training rows often carry; " +
    "the darker, the larger that share.";
  return el("p", { class: "quiet" }, `${shown}, ${count(data.source.length)} arrows. ${meaning}`);
}

async function choose(label) {
  const asked = { label, limit: SHOWN };
  if (map.leastCount > 1) asked.min_count = map.leastCount;
  const mine = ++questions;
  const found = await get("/v1/relations", asked);
  if (mine !== questions) return; // another label, or another limit, was chosen meanwhile
  const shares = (list) =>
    new Map(list.filter((other) => column.has(other.label)).map((other) => [column.get(other.label), other.share_low]));
  const place = column.get(label) ?? -1; // of very many labels the rare ones have none
  map.select(place, ...(place < 0 ? [] : [shares(found.outgoing), shares(found.incoming)]));
  const elsewhere = place < 0 ? " It is too rare to be on the map." : "";
  const explained = "Bars show the share of the rarer label's rows that carry the other one.";
  $("chosen").replaceChildren(
    el("h2", {}, found.label),
    uriLink(found.uri) ?? "",
    el("p", { class: "quiet" }, `On ${rows(found.count)} of the training data. ${explained}${elsewhere}`),
    ...concepts("Broader", found.broader),
    ...concepts("Narrower", found.narrower),
    ...concepts("Related", found.related),
    ...lists("out", found.outgoing, found),
    ...lists("in", found.incoming, found),
  );
}

// One list for each verb that occurs, so that nothing stands under "implies" that the counts do not support.
function lists(kind, others, of) {
  const groups = Object.entries(HEADINGS[kind])
    .map(([verb, title]) => [title, others.filter((other) => other.verb === verb)])
    .filter(([, some]) => some.length);
  if (!groups.length)
    return [el("h3", { class: kind }, HEADINGS[kind].implies), el("p", { class: "quiet" }, "None found.")];
  return groups.flatMap(([title, some]) => [
    el("h3", { class: kind }, title),
    el("ul", { class: "arrows" }, some.map((other) => line(kind, other, of))),
  ]);
}

// What the vocabulary says; a concept that is no label of the model leads to its description only.
function concepts(title, some) {
  if (!some.length) return [];
  const chip = ({ label, uri, known }) =>
    el("li", {}, el("a", known ? { href: labelAddress(label) } : { href: uri, rel: "noopener noreferrer", target: "_blank" }, label));
  return [el("h3", {}, `${title} in the vocabulary`), el("ul", { class: "chips" }, some.map(chip))];
}

function line(kind, other, of) {
  const source = kind === "out" ? of : other;
  const pieces = [
    `${count(other.n_both)} of ${rows(source.count)} (${percent(other.share)})`,
    `direction sure: ${sure(other.confidence)}`,
  ];
  if (other.kl !== null) pieces.push(`KL ${other.kl.toFixed(2)}, back ${other.kl_reverse.toFixed(2)}`);
  const go = () => (location.hash = labelAddress(other.label));
  return el(
    "li",
    {},
    el(
      "button",
      { type: "button", class: kind, "data-label": other.label, onclick: go },
      el("span", { class: "name" }, other.label),
      bar(other.share),
      el("span", { class: "quiet" }, pieces.flatMap((piece) => [el("span", { class: "piece" }, piece), " "])),
    ),
  );
}

// What is nearly certain is not called certain.
const sure = (confidence) => (confidence > 0.99 ? ">99 %" : percent(confidence));

function listen() {
  $("zoom-in").addEventListener("click", () => map.zoom(1.5));
  $("zoom-out").addEventListener("click", () => map.zoom(1 / 1.5));
  $("zoom-fit").addEventListener("click", () => map.fit());
  // Frequencies span orders of magnitude, so does the slider.
  $("frequency").addEventListener("input", () => {
    const least = Math.round(map.most ** ($("frequency").value / 100));
    $("frequency-value").textContent = count(least);
    map.setLeastCount(least);
  });
  // The list follows when the slider rests.
  $("frequency").addEventListener("change", () => {
    const chosen = $("chosen").querySelector("h2")?.textContent;
    if (chosen) choose(chosen).catch(showProblem);
  });
  $("links").addEventListener("change", () => map.setLinks($("links").checked));
  $("save-picture").addEventListener("click", async () => download("label-map.png", await map.picture(), "image/png"));
  $("save-arrows").addEventListener("click", () => download("label-arrows.csv", arrowTable(map.data), "text/csv"));
  labelSearch($("search"), $("found"), (found) => (location.hash = labelAddress(found.label)));
}

function arrowTable({ labels, counts, source, target, strength }) {
  const lines = source.map((from, i) =>
    csvLine([labels[from], counts[from], labels[target[i]], counts[target[i]], strength[i]]),
  );
  return ["label,examples,more frequent label,its examples,share of examples with both (lower bound)\r\n", ...lines].join("");
}
