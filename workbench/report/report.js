"use strict";
(function () {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const config = JSON.parse(document.getElementById("config").textContent);
  // Lines with the same times share them in the page.
  const times = JSON.parse(document.getElementById("times").textContent);
  for (const figure of Object.values(charts)) for (const line of figure.data) if (typeof line.x === "number") line.x = times[line.x];
  const night = window.matchMedia("(prefers-color-scheme: dark)"), narrow = window.matchMedia("(max-width: 520px)");
  // Lines are too dark on a dark page: each has a lighter colour there, and so has the red of the onset.
  const night_colours = {
    "#007CC1": "#56B4E9", "#C25600": "#FF8C33", "#008762": "#1FC996", "#BC4F8B": "#E09CC3", "#9D6D00": "#E6B44D", "#7F60D9": "#B8A6F2",
    "#767676": "#A2A2A2", "#DC372E": "#FF8A80" };
  const lit = (line) => Object.assign({}, line, ...["line", "marker"].map((part) =>
    line[part] && night_colours[line[part].color] ? { [part]: Object.assign({}, line[part], { color: night_colours[line[part].color] }) } : {}));
  function drawOne(id, dark) {
    const ink = dark ? "#d6dae0" : "#24292f", grid = dark ? "#3a4048" : "#e3e6ea", figure = charts[id];
    const layout = Object.assign({}, figure.layout, { font: { color: ink, size: 12, family: "system-ui, sans-serif" } });
    layout.xaxis = Object.assign({}, layout.xaxis, { gridcolor: grid, linecolor: grid });
    layout.yaxis = Object.assign({}, layout.yaxis, { gridcolor: grid, linecolor: grid, zerolinecolor: grid });
    const light = (marks) => (dark && marks ? JSON.parse(JSON.stringify(marks).replace(/#[0-9A-F]{6}/g, (it) => night_colours[it] || it)) : marks);
    layout.shapes = light(layout.shapes);
    layout.annotations = light(layout.annotations);
    if (narrow.matches) layout.height += 24 * Math.ceil(figure.data.length / 2);  // the legend wraps; the curves keep their room
    layout.hoverlabel = { bgcolor: dark ? "#24292f" : "#ffffff", font: { color: ink } };
    window.Plotly.react(id, dark ? figure.data.map(lit) : figure.data, layout, config);
    follow(document.getElementById(id));
  }
  // One crosshair for all charts of a finding: they have the same time axis.
  let following = false;
  function follow(plot) {
    if (!plot.on || plot.dataset.follows) return;
    plot.dataset.follows = "yes";
    const others = () => [...plot.closest("section").querySelectorAll(".plot")].filter((it) => it !== plot && it.on);
    plot.on("plotly_hover", (event) => {
      if (following) return;
      following = true;
      for (const other of others()) try { window.Plotly.Fx.hover(other, { xval: event.xvals[0] }); } catch (_) { /* no line there */ }
      following = false;
    });
    plot.on("plotly_unhover", () => {
      if (following) return;
      following = true;
      for (const other of others()) window.Plotly.Fx.unhover(other);
      following = false;
    });
  }
  // Copy buttons: without scripts they stay hidden, and the command can be selected.
  function copied(button) {
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }
  function copy(button) {
    const code = button.parentElement.querySelector("code"), chosen = window.getSelection(), range = document.createRange();
    range.selectNodeContents(code);
    chosen.removeAllRanges();
    chosen.addRange(range);
    if (document.execCommand("copy")) copied(button);
    else if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => copied(button));
  }
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  // The first finding at once, the others one by one whenever nothing else is to do: a report of twenty opens as fast as one of one.
  const waiting = Object.keys(charts), drawn = [];
  function drawNext(number) {
    for (const id of waiting.splice(0, number)) {
      drawOne(id, night.matches);
      drawn.push(id);
    }
    if (waiting.length) setTimeout(drawNext, 0, 1);
  }
  function draw(onPaper) {
    if (onPaper) drawNext(waiting.length);
    for (const id of drawn) drawOne(id, night.matches && !onPaper);
  }
  // The labels of a figure are escaped for Plotly; here they are text.
  const plain = (text) => String(text).replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&");
  function row(table, kind, cells) {
    const line = table.insertRow();
    cells.forEach((text, n) => {
      const cell = document.createElement(kind);
      cell.textContent = text;
      if (n) cell.className = "n";
      line.append(cell);
    });
  }
  // Every instant of every line: from the data that the chart is drawn from, once somebody asks for it.
  function fill(details) {
    const place = details.querySelector(".instants"), data = charts[details.dataset.chart].data;
    if (place.firstChild || !data.length || data[0].mode === "markers") return;
    const table = document.createElement("table");
    row(table, "th", ["Time (UTC)", ...data.map((line) => plain(line.name))]);
    data[0].x.forEach((time, n) => {
      const values = data.map((line) => (line.y[n] === null ? "" : String(Number(line.y[n].toPrecision(4)))));
      row(table, "td", [time.slice(11, 19), ...values]);
    });
    place.className += " scroll";
    place.append(table);
  }
  drawNext(6);
  for (const it of [night, narrow]) it.addEventListener("change", () => draw(false));
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("details.numbers") && event.target.open) fill(event.target);
  }, true);
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details.numbers:not([open])")];
    opened.forEach((it) => { it.open = true; });
    draw(true);
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((it) => { it.open = false; });
    draw(false);
  });
})();
