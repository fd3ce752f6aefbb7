// Live updates and keyboard. Every page works without this script.
"use strict";
(() => {
  const { body } = document;
  document.documentElement.classList.add("script");
  const main = document.getElementById("main");
  const status = document.getElementById("status");

  // --- Keyboard: GitHub's habits. Single keys are ignored while somebody types.
  const places = { w: "/", t: "/threads", c: "/costs" };
  let prefix = 0;
  let at = -1;
  const isTyping = (target) => target.matches("input, select, textarea, [contenteditable]");
  const move = (step) => {
    const rows = [...main.querySelectorAll(".row")];
    if (!rows.length) return;
    at = Math.max(0, Math.min(rows.length - 1, at + step));
    rows.forEach((row, n) => row.classList.toggle("here", n === at));
    rows[at].querySelector("a").focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const follows = Date.now() - prefix < 1500;
    prefix = 0;
    if (follows && places[event.key]) return void location.assign(places[event.key]);
    if (event.key === "g") prefix = Date.now();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "/") {
      const field = document.getElementById("q");
      event.preventDefault();
      if (field) field.focus();
      else location.assign("/threads");
    }
  });

  // --- A form is sent once, however often its button is pressed.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    setTimeout(() => event.target.querySelectorAll("button").forEach((button) => { button.disabled = true; }));
  });

  // --- Live updates: the page is read again when its threads move. A decision is never exchanged under the pointer:
  // when another plan is in force, the buttons are switched off and the page says so.
  const kind = body.dataset.live;
  if (!kind || !window.EventSource) return;
  const isBusy = () => isTyping(document.activeElement) || document.querySelector("details.reject[open], dialog[open]");
  const renew = async () => {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    if (kind === "thread" && (page.body.dataset.digest || "") !== (body.dataset.digest || "")) {
      main.querySelectorAll("form[method=post] button").forEach((button) => { button.disabled = true; });
      status.innerHTML = "";
      const link = document.createElement("a");
      link.href = location.pathname;
      link.textContent = "Load it";
      status.append(body.dataset.digest ? "There is a newer plan. " : "There is a plan now. ", link);
      return;
    }
    if (isBusy()) {
      status.textContent = "This page has changed. It is updated when you finish typing.";
      document.addEventListener("focusout", () => setTimeout(renew), { once: true });
      return;
    }
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    const open = [...main.querySelectorAll("details")].map((each) => each.open);
    status.textContent = "";
    fresh.querySelector("#status").remove();
    main.replaceChildren(status, ...fresh.childNodes);
    main.querySelectorAll("details").forEach((each, n) => { if (open[n] !== undefined) each.open = open[n]; });
    if (focused) main.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    document.title = page.title;
    body.dataset.state = page.body.dataset.state;
  };
  const where = kind === "thread" ? `/live/${body.dataset.thread}` : "/live";
  new EventSource(`${where}?seen=${body.dataset.state}`).addEventListener("moved", renew);
})();
