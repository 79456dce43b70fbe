// The dashboard works without this script. The script keeps an open page true, and adds keys.
"use strict";

(() => {
  const main = document.getElementById("main");
  const state = document.getElementById("live");

  // Times. The rule is that of words.go.
  const short = (ms) => {
    const s = Math.floor(ms / 1000), min = Math.floor(s / 60), h = Math.floor(min / 60);
    if (s < 60) return s + " s";
    if (min < 60) return min + " min";
    if (h < 10 && min % 60 > 0) return h + " h " + (min % 60) + " min";
    if (h < 48) return h + " h";
    return Math.floor(h / 24) + " d";
  };
  const relative = (ms) => {
    if (Math.abs(ms) < 1000) return "now";
    return ms > 0 ? "in " + short(ms) : short(-ms) + " ago";
  };
  // The database's clock counts. ahead is how far it is ahead of the browser's, if the browser's is wrong.
  const drawn = document.querySelector("#live time");
  const ahead = drawn && Math.abs(Date.parse(drawn.dateTime) - Date.now()) > 5000 ? Date.parse(drawn.dateTime) - Date.now() : 0;
  let exact = false;
  const tellTimes = () => {
    for (const time of document.querySelectorAll("time[title]")) {
      const text = exact ? time.title : relative(Date.parse(time.dateTime) - Date.now() - ahead);
      if (time.textContent !== text) time.textContent = text;
    }
  };
  setInterval(tellTimes, 1000);

  // A live page. morph changes only the nodes that differ, so that the focus, chosen boxes and open details remain.
  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "") &&
    (!a.dataset || (a.dataset.key || "") === (b.dataset.key || ""));
  const morphAttributes = (now, next) => {
    for (const { name } of [...now.attributes]) {
      if (!next.hasAttribute(name) && !(name === "open" && now.nodeName === "DETAILS") && name !== "class") now.removeAttribute(name);
    }
    for (const { name, value } of [...next.attributes]) {
      if (now.getAttribute(name) !== value && name !== "open") now.setAttribute(name, value);
    }
  };
  // A row that has another place is moved, so that it stays chosen.
  const keyOf = (node) => node.dataset && node.dataset.key;
  const morph = (now, next) => {
    const kept = new Set([...next.childNodes].map(keyOf));
    for (const gone of [...now.childNodes]) if (keyOf(gone) && !kept.has(keyOf(gone))) gone.remove();
    let at = now.firstChild;
    for (const wanted of [...next.childNodes]) {
      let found = at;
      while (found && !same(found, wanted)) found = keyOf(found) && !keyOf(wanted) ? null : found.nextSibling;
      if (found && found !== at && keyOf(found)) {
        now.insertBefore(found, at);
        at = found;
      }
      if (!found) {
        const made = document.importNode(wanted, true);
        if (made.nodeName === "TR" || made.nodeName === "LI") made.classList.add("changed-now");
        now.insertBefore(made, at);
        continue;
      }
      while (at !== found) {
        const gone = at;
        at = at.nextSibling;
        gone.remove();
      }
      at = at.nextSibling;
      if (found.nodeType === Node.TEXT_NODE) {
        if (found.data !== wanted.data) found.data = wanted.data;
      } else if (found.nodeType === Node.ELEMENT_NODE && !found.isEqualNode(wanted) && !found.contains(editing())) {
        morphAttributes(found, wanted);
        if (found.nodeName !== "TEXTAREA") morph(found, wanted);
      } else if (found.nodeType === Node.ELEMENT_NODE && found.contains(editing()) && !isField(found)) {
        morph(found, wanted);
      }
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };
  const isField = (node) => ["INPUT", "SELECT", "TEXTAREA"].includes(node.nodeName);
  // A form that somebody fills in is left alone.
  const editing = () => {
    const active = document.activeElement;
    return active && isField(active) && active.type !== "checkbox" && main.contains(active) ? active : null;
  };

  let stream = null;
  const tell = (name) => { if (state) state.dataset.state = name; };
  const follow = () => {
    const address = document.body.dataset.live;
    if (!address || stream || document.hidden || main.querySelector("[data-still]")) return;
    stream = new EventSource(address);
    stream.onopen = () => tell("on");
    stream.onmessage = (event) => {
      const next = document.createElement("template");
      next.innerHTML = JSON.parse(event.data);
      morph(main, next.content);
      tellTimes();
      choose(chosenRow && chosenRow.isConnected ? rows().indexOf(chosenRow) : chosen, false);
    };
    stream.onerror = () => {
      tell("lost");
      if (stream.readyState === EventSource.CLOSED) { // the answer was no stream
        stream = null;
        setTimeout(follow, 5000);
      }
    };
  };
  const unfollow = () => {
    if (stream) stream.close();
    stream = null;
    tell("off");
  };
  // A hidden page has no stream, because a browser has six connections to one host.
  document.addEventListener("visibilitychange", () => document.hidden ? unfollow() : follow());
  addEventListener("pagehide", unfollow);
  addEventListener("pageshow", follow);

  // Empty fields do not go into the address.
  document.addEventListener("formdata", (event) => {
    if (event.target.method !== "get") return;
    for (const [name, value] of [...event.formData]) if (value === "") event.formData.delete(name);
  });

  // Choose all rows of a table.
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const box of event.target.closest("table").querySelectorAll("tbody input[type=checkbox]")) box.checked = event.target.checked;
  });

  // Keys.
  const dialog = document.getElementById("keys-dialog");
  const button = document.getElementById("keys-button");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  let chosen = -1, chosenRow = null; // the row stays the chosen one when others come before it
  const rows = () => [...main.querySelectorAll("tbody tr")];
  const choose = (index, scroll) => {
    const all = rows();
    if (all.length === 0 || index < 0) return;
    chosen = Math.min(index, all.length - 1);
    chosenRow = all[chosen];
    all.forEach((row, i) => row.classList.toggle("chosen", i === chosen));
    if (scroll) {
      all[chosen].scrollIntoView({ block: "nearest" });
      const link = all[chosen].querySelector("a");
      if (link) link.focus({ preventScroll: true });
    }
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isField(event.target) && event.target.type !== "checkbox") return;
    if (dialog && dialog.open) return;
    switch (event.key) {
    case "/": {
      const search = document.getElementById("search");
      if (!search) return;
      search.focus();
      break;
    }
    case "j": choose(chosen + 1, true); break;
    case "k": choose(Math.max(chosen - 1, 0), true); break;
    case "x": {
      const box = chosen >= 0 && rows()[chosen] && rows()[chosen].querySelector("input[type=checkbox]");
      if (!box) return;
      box.checked = !box.checked;
      box.dispatchEvent(new Event("change", { bubbles: true }));
      break;
    }
    case "t": exact = !exact; tellTimes(); break;
    case "?": if (dialog) dialog.showModal(); break;
    default: return;
    }
    event.preventDefault();
  });
})();
