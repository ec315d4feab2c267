"""Browser part of a panel: reports the page's query and the screen's time zone, makes Copy buttons work, and switches JupyterLab's
shortcuts off in the panel.

In JupyterLab's command mode, an arrow key moves to another cell and "d d" deletes one, even while a list or a button of an output has
the focus. JupyterLab has an attribute that switches this off.
"""

from __future__ import annotations

import anywidget
import traitlets

# JupyterLab removes the query from the URL after opening; the browser keeps the page's first URL. That also holds the access token,
# so only the names of inputs are reported.
_SCRIPT = """
const NAMES = ["cluster", "capture", "group", "topic", "since", "until"];
function query() {
  const first = performance.getEntriesByType("navigation")[0];
  const found = new URLSearchParams();
  for (const address of [first ? first.name : "", window.location.href]) {
    if (!address) continue;
    for (const [name, value] of new URL(address).searchParams) if (NAMES.includes(name)) found.set(name, value);
  }
  return found.toString();
}
export default {
  initialize({ model }) {
    model.set("query", query());
    model.set("zone", Intl.DateTimeFormat().resolvedOptions().timeZone || "");
    model.save_changes();
  },
  render({ el }) {
    let left = 100;
    function look() {
      const panel = el.closest(".wb-panel");
      if (panel) panel.setAttribute("data-lm-suppress-shortcuts", "true");
      else if (left--) setTimeout(look, 50);
    }
    look();
    function copy(event) {
      const button = event.target.closest && event.target.closest(".wb-panel button.copy");
      if (!button) return;
      const chosen = window.getSelection(), range = document.createRange();
      range.selectNodeContents(button.parentElement.querySelector("code"));
      chosen.removeAllRanges();
      chosen.addRange(range);
      if (!document.execCommand("copy")) return;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    }
    document.addEventListener("click", copy);
    return () => document.removeEventListener("click", copy);
  },
};
"""


class Address(anywidget.AnyWidget):
    """Invisible widget; `query` is the query string of the page's URL, `zone` the time zone of the screen ("Asia/Shanghai").

    Both are empty until a browser has answered.
    """

    _esm = _SCRIPT
    query = traitlets.Unicode("").tag(sync=True)
    zone = traitlets.Unicode("").tag(sync=True)
