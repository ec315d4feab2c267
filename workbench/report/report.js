"use strict";
(function () {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const config = JSON.parse(document.getElementById("config").textContent);
  function draw() {
    const dark = window.matchMedia("(prefers-color-scheme: dark)").matches && !window.matchMedia("print").matches;
    const ink = dark ? "#d6dae0" : "#24292f", grid = dark ? "#3a4048" : "#e3e6ea";
    for (const [id, figure] of Object.entries(charts)) {
      const layout = Object.assign({}, figure.layout, { font: { color: ink, size: 12, family: "system-ui, sans-serif" } });
      layout.xaxis = Object.assign({}, layout.xaxis, { gridcolor: grid, linecolor: grid });
      layout.yaxis = Object.assign({}, layout.yaxis, { gridcolor: grid, linecolor: grid, zerolinecolor: grid });
      layout.hoverlabel = { bgcolor: dark ? "#24292f" : "#ffffff", font: { color: ink } };
      window.Plotly.react(id, figure.data, layout, config);
    }
  }
  draw();
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();
