// A text field with a list of labels that hold what is typed, as the ARIA guide describes a combobox.

import { get, showProblem } from "/page/api.js";
import { count, el } from "/page/dom.js";

export function labelSearch(input, box, choose) {
  let options = [];
  let active = -1;
  let asked = 0;

  const close = () => {
    asked++; // an answer that is still on its way opens nothing
    box.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const go = (found) => {
    input.value = found.label;
    close();
    choose(found);
  };
  const activate = (next) => {
    active = (next + options.length) % options.length;
    [...box.children].forEach((line, i) => line.setAttribute("aria-selected", String(i === active)));
    box.children[active].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `${box.id}-${active}`);
  };

  input.addEventListener("input", async () => {
    const mine = ++asked;
    const query = input.value.trim().slice(0, 200);
    if (!query) return close();
    try {
      const answer = await get("/v1/labels", { query, limit: 12 });
      if (mine !== asked) return undefined;
      options = answer.labels;
      active = -1;
      box.replaceChildren(
        ...options.map((found, i) =>
          el(
            "li",
            { role: "option", id: `${box.id}-${i}`, "aria-selected": "false", onmousedown: () => go(found) },
            el("span", {}, found.label),
            el("span", { class: "quiet" }, count(found.count)),
          ),
        ),
      );
      if (!options.length)
        box.replaceChildren(el("li", { role: "option", "aria-disabled": "true", class: "quiet" }, "No label holds this."));
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
    else if (event.key === "Enter" && (active >= 0 || !input.form)) go(options[Math.max(active, 0)]);
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", close);
}
