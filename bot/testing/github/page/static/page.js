// Keeps a page in sync with the server. Everything works without this script: forms post and redirect.
// Only the parts that the server changed are replaced, so that typed text, folded sections, and focus stay.
"use strict";

const SECONDS = 1;
let shown = document.cloneNode(true);
let tag = "";

const live = (page) => [...page.querySelectorAll("[data-live]")];

function replaced(old, fresh) {
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  const copy = document.importNode(fresh, true);
  copy.querySelectorAll("details").forEach((each, at) => { if (at in open) each.open = open[at]; });
  const held = old.contains(document.activeElement) ? document.activeElement : null;
  old.replaceWith(copy);
  if (held) [...copy.querySelectorAll("button")].find((each) => each.title === held.title && each.value === held.value)?.focus();
}

function merge(fresh) {
  let last = null;
  for (const part of live(fresh)) {
    const old = document.getElementById(part.id);
    const before = shown.getElementById(part.id);
    if (!old) {
      if (last) last.after(document.importNode(part, true));
      else document.getElementById(part.parentElement.id)?.prepend(document.importNode(part, true));
    } else if (!before || !before.isEqualNode(part)) {
      replaced(old, part);
    }
    last = document.getElementById(part.id);
  }
  for (const old of live(document)) if (!fresh.getElementById(old.id)) old.remove();
  document.title = fresh.title;
  shown = fresh;
}

async function look() {
  try {
    const answer = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
    if (answer.ok) {
      tag = answer.headers.get("ETag") ?? "";
      merge(new DOMParser().parseFromString(await answer.text(), "text/html"));
    }
  } catch {
    // The server does not respond now; the next poll may succeed.
  }
  setTimeout(look, (document.hidden ? 10 : 1) * SECONDS * 1000);
}

// Choosing a person switches at once; without this script, a button does it.
document.getElementById("acting")?.addEventListener("change", (event) => event.target.form.requestSubmit());

// A form whose answer is this page again is sent without leaving the page.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.hasAttribute("data-stay")) return;
  event.preventDefault();
  const sent = new URLSearchParams(new FormData(form, event.submitter));
  const answer = await fetch(form.action, { method: "POST", body: sent });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!answer.ok) {
    document.getElementById("said").textContent = page.querySelector("main")?.textContent ?? answer.statusText;
    return;
  }
  form.querySelectorAll("textarea").forEach((each) => { each.value = ""; });
  document.getElementById("said").textContent = "";
  merge(page);
});

setTimeout(look, SECONDS * 1000);
