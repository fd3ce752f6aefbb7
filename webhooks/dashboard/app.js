// Keyboard shortcuts and live updates. Every page works without this script.
"use strict";
(() => {
  const { body } = document;
  document.documentElement.classList.add("script");
  const main = document.getElementById("main");
  const status = document.getElementById("status");

  // --- Keyboard shortcuts, as on GitHub. They are ignored while somebody types.
  const pagesByKey = { w: "/", t: "/threads", c: "/costs" };
  const prefixMilliseconds = 1500;
  let prefixPressedAt = 0;
  let selectedRow = -1;
  const isTyping = (target) => target.matches("input, select, textarea, [contenteditable]");
  const moveSelection = (step) => {
    const rows = [...main.querySelectorAll(".row")];
    if (!rows.length) return;
    selectedRow = Math.max(0, Math.min(rows.length - 1, selectedRow + step));
    rows.forEach((row, n) => row.classList.toggle("selected", n === selectedRow));
    rows[selectedRow].querySelector("a").focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const followsPrefix = Date.now() - prefixPressedAt < prefixMilliseconds;
    prefixPressedAt = 0;
    if (followsPrefix && pagesByKey[event.key]) return void location.assign(pagesByKey[event.key]);
    if (event.key === "g") prefixPressedAt = Date.now();
    else if (event.key === "j") moveSelection(1);
    else if (event.key === "k") moveSelection(-1);
    else if (event.key === "?") document.getElementById("keys").showModal();
    else if (event.key === "/") {
      const searchField = document.getElementById("q");
      event.preventDefault();
      if (searchField) searchField.focus();
      else location.assign("/threads");
    }
  });

  // --- A form is sent once, however often its button is pressed.
  const disableButtons = (buttons) => buttons.forEach((button) => { button.disabled = true; });
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    setTimeout(() => disableButtons(event.target.querySelectorAll("button")));
  });

  // --- Live updates: the page is loaded again when its threads change. Buttons never change their meaning while
  // somebody is about to press one: when there is a newer plan, they are disabled, and a message links to it.
  const liveKind = body.dataset.live;
  if (!liveKind || !window.EventSource) return;
  const isBusy = () => isTyping(document.activeElement) || document.querySelector("details.reject[open], dialog[open]");
  const updatePage = async () => {
    const response = await fetch(location.href, { headers: { accept: "text/html" } }).catch(() => null);
    if (!response?.ok || response.redirected) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const newMain = page.getElementById("main");
    if (liveKind === "thread" && (page.body.dataset.digest || "") !== (body.dataset.digest || "")) {
      disableButtons(main.querySelectorAll("form[method=post] button"));
      status.textContent = "";
      const link = document.createElement("a");
      link.href = location.pathname;
      link.textContent = "Load it";
      status.append(body.dataset.digest ? "There is a newer plan. " : "There is a plan now. ", link);
      return;
    }
    if (isBusy()) {
      status.textContent = "This page has changed. It is updated when you finish typing.";
      document.addEventListener("focusout", () => setTimeout(updatePage), { once: true });
      return;
    }
    const focusedLink = document.activeElement && document.activeElement.getAttribute("href");
    const wasOpen = [...main.querySelectorAll("details")].map((details) => details.open);
    status.textContent = "";
    newMain.querySelector("#status").remove();
    main.replaceChildren(status, ...newMain.childNodes);
    main.querySelectorAll("details").forEach((details, n) => { details.open = wasOpen[n] ?? details.open; });
    if (focusedLink) main.querySelector(`a[href="${CSS.escape(focusedLink)}"]`)?.focus();
    document.title = page.title;
    body.dataset.state = page.body.dataset.state;
  };
  const stream = liveKind === "thread" ? `/live/${body.dataset.thread}` : "/live";
  new EventSource(`${stream}?seen=${body.dataset.state}`).addEventListener("moved", updatePage);
})();
