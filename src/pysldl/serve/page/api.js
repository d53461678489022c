// Requests to the service that sent this page.

import { $ } from "/page/dom.js";

const TOKEN = "sldl-token";

export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Refusal("unreachable", "The service does not answer. Is it still running?");
  }
  const document = await answer.json();
  if (answer.ok) return document;
  if (answer.status === 401) {
    await askForToken();
    return ask(path, options);
  }
  throw new Refusal(document.error.code, document.error.message);
}

export const get = (path, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  return ask(query ? `${path}?${query}` : path);
};

export const post = (path, body) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

let asking = null;

// However many requests are refused, the form is shown once.
function askForToken() {
  asking ??= new Promise((resolve) => {
    const form = $("token");
    form.hidden = false;
    $("token-input").value = "";
    $("token-input").focus();
    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        sessionStorage.setItem(TOKEN, $("token-input").value.trim());
        form.hidden = true;
        asking = null;
        resolve();
      },
      { once: true },
    );
  });
  return asking;
}

export function showProblem(error) {
  if (!(error instanceof Refusal)) console.error(error);
  $("problem").textContent = error.message;
  $("problem").hidden = false;
}

export function clearProblem() {
  $("problem").hidden = true;
}
