// Keeps a page up to date with the server. Everything works without this script: forms post and redirect.
// It replaces only the parts that changed on the server, so that typed text, open sections, and focus stay.
"use strict";

const POLL_SECONDS = 1;
const HIDDEN_POLL_SECONDS = 10;
let serverPage = document.cloneNode(true);
let etag = "";

const liveParts = (page) => [...page.querySelectorAll("[data-live]")];

function replacePart(old, fresh) {
  const wasOpen = [...old.querySelectorAll("details")].map((details) => details.open);
  const copy = document.importNode(fresh, true);
  copy.querySelectorAll("details").forEach((details, n) => { details.open = wasOpen[n] ?? details.open; });
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(copy);
  if (!focused) return;
  const isSame = (button) => button.title === focused.title && button.value === focused.value;
  [...copy.querySelectorAll("button")].find(isSame)?.focus();
}

function updateFrom(fresh) {
  let last = null;
  for (const part of liveParts(fresh)) {
    const old = document.getElementById(part.id);
    const before = serverPage.getElementById(part.id);
    if (!old) {
      if (last) last.after(document.importNode(part, true));
      else document.getElementById(part.parentElement.id)?.prepend(document.importNode(part, true));
    } else if (!before || !before.isEqualNode(part)) {
      replacePart(old, part);
    }
    last = document.getElementById(part.id);
  }
  for (const old of liveParts(document)) if (!fresh.getElementById(old.id)) old.remove();
  document.title = fresh.title;
  serverPage = fresh;
}

async function poll() {
  try {
    const response = await fetch(location.href, { headers: etag ? { "If-None-Match": etag } : {}, cache: "no-store" });
    if (response.ok) {
      etag = response.headers.get("ETag") ?? "";
      updateFrom(new DOMParser().parseFromString(await response.text(), "text/html"));
    }
  } catch {
    // The server does not respond now; the next poll may succeed.
  }
  setTimeout(poll, (document.hidden ? HIDDEN_POLL_SECONDS : POLL_SECONDS) * 1000);
}

// The choice of a person takes effect at once. Without this script, a button submits it.
document.getElementById("acting")?.addEventListener("change", (event) => event.target.form.requestSubmit());

// A form with data-stay leads back to this page: it is sent without leaving the page.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.hasAttribute("data-stay")) return;
  event.preventDefault();
  const fields = new URLSearchParams(new FormData(form, event.submitter));
  const response = await fetch(form.action, { method: "POST", body: fields });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (!response.ok) {
    document.getElementById("notice").textContent = page.querySelector("main")?.textContent ?? response.statusText;
    return;
  }
  form.querySelectorAll("textarea").forEach((field) => { field.value = ""; });
  document.getElementById("notice").textContent = "";
  updateFrom(page);
});

setTimeout(poll, POLL_SECONDS * 1000);
