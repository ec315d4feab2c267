"use strict";
(function () {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const config = JSON.parse(document.getElementById("config").textContent);
  const night = window.matchMedia("(prefers-color-scheme: dark)");
  function drawOne(id, dark) {
    const ink = dark ? "#d6dae0" : "#24292f", grid = dark ? "#3a4048" : "#e3e6ea", figure = charts[id];
    const layout = Object.assign({}, figure.layout, { font: { color: ink, size: 12, family: "system-ui, sans-serif" } });
    layout.xaxis = Object.assign({}, layout.xaxis, { gridcolor: grid, linecolor: grid });
    layout.yaxis = Object.assign({}, layout.yaxis, { gridcolor: grid, linecolor: grid, zerolinecolor: grid });
    layout.hoverlabel = { bgcolor: dark ? "#24292f" : "#ffffff", font: { color: ink } };
    window.Plotly.react(id, figure.data, layout, config);
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
  night.addEventListener("change", () => draw(false));
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
