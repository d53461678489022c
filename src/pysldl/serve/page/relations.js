// Relations: find a label on the map, see what it implies and what implies it, and go on from there.

import { get, showProblem } from "/page/api.js";
import { $, bar, count, el, labelAddress, rows } from "/page/dom.js";
import { LabelMap } from "/page/map.js";

const SHOWN = 8;

let map = null;
let column = null;
let loading = null;

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
    $("map").setAttribute("aria-label", `Map of ${count(data.labels.length)} labels`);
  } catch (error) {
    loading = null;
    throw error;
  }
}

function note(data) {
  const basis =
    data.basis === "gaussians"
      ? "An arrow from one label to another says that the first implies the second: its Gaussian lies within the other one."
      : "This model has no Gaussians; arrows go from rarer labels to those that their training rows also carry.";
  const shown =
    data.labels.length < data.total
      ? `The ${count(data.labels.length)} most frequent of ${count(data.total)} labels`
      : `${count(data.total)} labels`;
  return el("p", { class: "quiet" }, `${shown}, ${count(data.source.length)} arrows. ${basis}`);
}

async function choose(label) {
  const found = await get("/v1/relations", { label, limit: SHOWN });
  const strengths = (list) =>
    new Map(list.filter((other) => column.has(other.label)).map((other) => [column.get(other.label), other.strength]));
  const place = column.get(label) ?? -1; // of very many labels the rare ones have none
  map.select(place, ...(place < 0 ? [] : [strengths(found.implies), strengths(found.implied_by)]));
  const elsewhere = place < 0 ? " It is too rare to be on the map." : "";
  $("chosen").replaceChildren(
    el("h2", {}, found.label),
    el("p", { class: "quiet" }, `On ${rows(found.count)} of the training data. Bars show how one-sided a relation is.${elsewhere}`),
    ...list("Implies", "out", found.implies, found),
    ...list("Is implied by", "in", found.implied_by, found),
  );
}

function list(title, kind, others, of) {
  const heading = el("h3", { class: kind }, title);
  if (!others.length) return [heading, el("p", { class: "quiet" }, "No label near enough.")];
  const largest = Math.max(...others.map((other) => other.strength));
  const lines = others.map((other) => {
    const source = kind === "out" ? of : other;
    const divergence =
      other.kl === null ? "" : ` · KL ${other.kl.toFixed(2)}, back ${other.kl_reverse.toFixed(2)}`;
    const go = () => (location.hash = labelAddress(other.label));
    return el(
      "li",
      {},
      el(
        "button",
        { type: "button", class: kind, "data-label": other.label, onclick: go },
        el("span", { class: "name" }, other.label),
        bar(other.strength / largest),
        el("span", { class: "quiet" }, `${count(other.n_both)} of ${rows(source.count)}${divergence}`),
      ),
    );
  });
  return [heading, el("ul", { class: "arrows" }, lines)];
}

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
  listenToSearch();
}

// A text field with a list of suggestions, as the ARIA guide describes a combobox.
function listenToSearch() {
  const input = $("search");
  const box = $("found");
  let options = [];
  let active = -1;
  let asked = 0;

  const close = () => {
    box.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const go = (label) => {
    input.value = label;
    close();
    location.hash = labelAddress(label);
  };
  const activate = (next) => {
    active = (next + options.length) % options.length;
    [...box.children].forEach((line, i) => line.setAttribute("aria-selected", String(i === active)));
    box.children[active].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `found-${active}`);
  };

  input.addEventListener("input", async () => {
    const mine = ++asked;
    const query = input.value.trim().slice(0, 200);
    if (!query) return close();
    try {
      const answer = await get("/v1/labels", { query, limit: 12 });
      if (mine !== asked) return undefined;
      options = answer.labels.map((found) => found.label);
      box.replaceChildren(
        ...answer.labels.map((found, i) =>
          el(
            "li",
            { role: "option", id: `found-${i}`, "aria-selected": "false", onmousedown: () => go(found.label) },
            el("span", {}, found.label),
            el("span", { class: "quiet" }, count(found.count)),
          ),
        ),
      );
      if (!options.length) box.replaceChildren(el("li", { class: "quiet" }, "No label holds this."));
      box.hidden = false;
      input.setAttribute("aria-expanded", "true");
    } catch (error) {
      showProblem(error);
    }
    return undefined;
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (box.hidden || !options.length) return;
    if (event.key === "ArrowDown") activate(active + 1);
    else if (event.key === "ArrowUp") activate(active - 1);
    else if (event.key === "Enter") go(options[Math.max(active, 0)]);
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", close);
}
