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
    waitForService();
    throw new Refusal("unreachable", "The service is gone: it does not answer. This page tries again by itself.");
  }
  let document;
  try {
    document = await answer.json();
  } catch {
    throw new Refusal("unreadable", `The answer cannot be read (status ${answer.status}).`);
  }
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

let again = null;
let waiting = 0;

// A problem, and what to do again, if anything, when the person wants to or the service is back.
export function showProblem(error, retry = null) {
  if (!(error instanceof Refusal)) console.error(error);
  again = retry;
  $("problem-text").textContent = error.message;
  $("problem-again").hidden = retry === null;
  $("problem").hidden = false;
}

export function clearProblem() {
  $("problem").hidden = true;
}

function tryAgain() {
  clearProblem();
  again?.();
}

$("problem-again").addEventListener("click", tryAgain);

// Asks now and then whether the service is back.
function waitForService() {
  waiting ||= setInterval(async () => {
    try {
      await fetch("/health/live", { cache: "no-store" });
    } catch {
      return;
    }
    clearInterval(waiting);
    waiting = 0;
    if (!$("problem").hidden) tryAgain();
  }, 2000);
}
