// The frame of the page: which view is shown, and what all views know about the model.

import { clearProblem, get, showProblem } from "/page/api.js";
import { $ } from "/page/dom.js";
import { showModel } from "/page/model.js";
import { showRelations } from "/page/relations.js";
import { showTag } from "/page/tag.js";

const VIEWS = { tag: showTag, relations: showRelations, model: showModel };

let routes = 0;

async function route() {
  const mine = ++routes;
  clearProblem();
  const [name, label] = location.hash.slice(1).split("/");
  const view = name in VIEWS ? name : "tag";
  for (const other of Object.keys(VIEWS)) $(`view-${other}`).hidden = other !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    const facts = await get("/v1/model"); // each time: the service may have a newer model by now
    if (mine !== routes) return;
    $("model-name").textContent = facts.name;
    document.title = `${facts.name} · ${view[0].toUpperCase()}${view.slice(1)}`;
    await VIEWS[view](facts, label === undefined ? null : decodeURIComponent(label));
  } catch (error) {
    showProblem(error, route);
  }
}

// The address of the content is not a view.
addEventListener("hashchange", () => location.hash !== "#content" && route());
route();
