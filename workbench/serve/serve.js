"use strict";
// Live parts are fetched again and put in place of the old ones; a person's focus, selection or open details are left alone.
(() => {
  const every = 10000;
  const busy = (part) =>
    part.contains(document.activeElement) || part.querySelector("details[open]") || String(getSelection() || "").length > 0;
  async function refresh() {
    if (document.hidden || !document.querySelector("[data-live]")) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelectorAll("[data-live]");
      document.querySelectorAll("[data-live]").forEach((part, number) => {
        if (fresh[number] && !busy(part)) part.replaceWith(document.importNode(fresh[number], true));
      });
    } catch {
      return; // the server is being restarted: the next attempt is soon
    }
  }
  setInterval(refresh, every);
  for (const button of document.querySelectorAll("button.copy")) {
    const code = button.parentElement.querySelector("code");
    if (!code || !navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", () => navigator.clipboard.writeText(code.textContent).then(() => (button.textContent = "Copied")));
  }
})();
