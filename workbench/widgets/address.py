"""The panel's end in the browser: tells the query of the page's address, and keeps JupyterLab's shortcuts out of the panel.

In JupyterLab's command mode an arrow moves to another cell and a pair of d deletes one, also while a list or a button of an output has
the focus; its own attribute for that switches them off.
"""

from __future__ import annotations

import anywidget
import traitlets

# JupyterLab takes the query off the address once it has opened; the browser remembers the page's first one. The token that stands
# there too is nobody's business: only names of inputs are told.
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
  initialize({ model }) { model.set("query", query()); model.save_changes(); },
  render({ el }) {
    let left = 100;
    function look() {
      const panel = el.closest(".wb-panel");
      if (panel) panel.setAttribute("data-lm-suppress-shortcuts", "true");
      else if (left--) setTimeout(look, 50);
    }
    look();
  },
};
"""


class Address(anywidget.AnyWidget):
    """Shows nothing; `query` is what stands behind the question mark, empty until a browser has answered."""

    _esm = _SCRIPT
    query = traitlets.Unicode("").tag(sync=True)
