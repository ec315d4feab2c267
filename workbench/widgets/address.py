"""The query of the page's address, told by the browser: so that a link can fill a panel in, in JupyterLab too."""

from __future__ import annotations

import anywidget
import traitlets

_SCRIPT = """
export default {
  initialize({ model }) { model.set("query", window.location.search); model.save_changes(); },
  render() {},
};
"""


class Address(anywidget.AnyWidget):  # type: ignore[misc]
    """Shows nothing; `query` is what stands behind the question mark, empty until a browser has answered."""

    _esm = _SCRIPT
    query = traitlets.Unicode("").tag(sync=True)
