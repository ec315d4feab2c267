// Prebuilt extension of JupyterLab, written by hand: no build chain, no dependency. `workbench notebook` passes its folder.
// 1. A notebook with a cell that is tagged `run-on-open` runs when it is opened, if JupyterLab trusts every code cell of it.
// 2. If its kernel dies, that is said; JupyterLab starts another one, and the cells run again, so that the panel works.
// 3. On a narrow window, the notebook has the screen: one document, no sidebars. A wider window gets back what it had.
(() => {
  const TAG = "run-on-open", NARROW_PIXELS = 800, SIDES = ["left", "right"];
  const seen = new WeakSet();

  const codeCells = (panel) => [...panel.content.model.cells].filter((cell) => cell.type === "code");
  const tagged = (cell) => (cell.getMetadata("tags") || []).includes(TAG);

  async function opened(app, panel) {
    await panel.context.ready;
    await panel.sessionContext.ready;
    const session = panel.sessionContext.session;
    if (!session || !session.kernel || !panel.content.model || panel.isDisposed) return;
    const cells = codeCells(panel);
    if (!cells.some(tagged) || !cells.every((cell) => cell.trusted)) return;
    await session.kernel.info; // before it, a kernel counts as idle that is not there yet
    app.shell.activateById(panel.id);
    await run(app);
    panel.content.activeCellIndex = 0; // running has moved to the last cell
    (panel.content.outerNode || panel.content.node).scrollTop = 0;
    watch(app, panel);
  }

  const run = (app) => app.commands.execute("notebook:run-all-cells");
  const tell = (app, message, actions) =>
    app.commands.execute("apputils:notify", { message, type: "warning", options: { autoClose: false, actions } });

  // A panel lives in its kernel: without it, it is a picture whose buttons do nothing, and a step would seem to go on for ever.
  function watch(app, panel) {
    let died = false;
    panel.sessionContext.statusChanged.connect((_, status) => {
      if (panel.isDisposed) return;
      if (status === "dead") {
        tell(app, "The kernel has ended, and with it what the panel was doing. Press “Restart and run”.",
          [{ label: "Restart and run", commandId: "notebook:restart-run-all" }]);
      } else if (status === "autorestarting") {
        died = true;
      } else if (died && status === "idle") {
        died = false;
        app.shell.activateById(panel.id);
        run(app).then(() => tell(app, "The kernel had ended, and was started again. The panel is new: what it was doing did not finish. Fill in the inputs, and press its button."));
      }
    });
  }

  function look(app) {
    for (const panel of app.shell.widgets("main")) {
      if (!panel.sessionContext || !panel.context || !panel.content || seen.has(panel)) continue;
      seen.add(panel);
      opened(app, panel).catch((error) => console.error("lag-workbench:", error));
    }
  }

  const style = document.createElement("style");
  style.textContent = `body.lag-workbench-narrow .jp-Notebook :is(.jp-InputPrompt, .jp-OutputPrompt, .jp-Collapser) { display: none; }
    body.lag-workbench-narrow .jp-Notebook .jp-Placeholder { min-width: 0; max-width: 100%; overflow: hidden; }
    body.lag-workbench-narrow .jp-Notebook :is(.jp-Placeholder-contents, .jp-Placeholder-text) { min-width: 0; overflow: hidden; }
    body.lag-workbench-narrow .jp-Notebook .jp-Cell { padding-left: 0; padding-right: 0; }`;

  let before = null; // the layout of the wide window, while it is narrow
  function fit(app) {
    const shell = app.shell, narrow = window.innerWidth < NARROW_PIXELS;
    if (narrow === (before !== null)) return;
    document.body.classList.toggle("lag-workbench-narrow", narrow);
    if (narrow) {
      before = { mode: shell.mode, left: shell.leftCollapsed, right: shell.rightCollapsed,
        hidden: SIDES.filter((side) => !shell.isSideTabBarVisible(side)) };
      shell.mode = "single-document";
      shell.collapseLeft();
      shell.collapseRight();
    } else {
      shell.mode = before.mode;
      if (!before.left) shell.expandLeft();
      if (!before.right) shell.expandRight();
    }
    for (const side of SIDES) {
      if (!before.hidden.includes(side) && shell.isSideTabBarVisible(side) === narrow) shell.toggleSideTabBarVisibility(side);
    }
    if (!narrow) before = null;
  }

  const plugin = {
    id: "lag-workbench:opening",
    description: "Runs trusted panels on opening, and gives them a narrow window.",
    autoStart: true,
    activate(app) {
      app.restored.then(() => {
        document.head.append(style);
        fit(app);
        window.addEventListener("resize", () => fit(app));
        look(app);
        app.shell.layoutModified.connect(() => look(app));
      });
    },
  };
  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB["lag-workbench"] = { init() {}, get: async () => () => ({ __esModule: true, default: [plugin] }) };
})();
