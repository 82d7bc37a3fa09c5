"""The style sheet of the report: light, dark, narrow, wide and on paper."""

STYLE = """
:root {
  color-scheme: light;
  --page: #f6f6f3; --card: #ffffff; --edge: #e3e2dc; --ink: #1d2129;
  --soft: #5b6270; --faint: #eeeee9; --accent: #2456c4; --on-accent: #ffffff;
  --second: #b4540a; --wrong: #c2401c; --on-wrong: #ffffff; --grid: #e4e4df;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    color-scheme: dark;
    --page: #14161b; --card: #1c1f26; --edge: #30343e; --ink: #e9eaee;
    --soft: #a2a9b8; --faint: #282c35; --accent: #7ba6ff; --on-accent: #0d1424;
    --second: #f0a35e; --wrong: #ff8a63; --on-wrong: #2a0d03; --grid: #2e323c;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
    "Liberation Sans", Arial, sans-serif;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere;
}
.page { max-width: 1120px; margin: 0 auto; padding: 40px 24px 32px; }
h1 { font-size: 2.1rem; line-height: 1.15; margin: 0; letter-spacing: -0.015em; }
h2 { font-size: 1.25rem; line-height: 1.25; margin: 0 0 6px; letter-spacing: -0.01em; }
h3 { font-size: 1rem; margin: 0 0 8px; }
p { margin: 0; }
.eyebrow { color: var(--accent); font-size: 0.85rem; font-weight: 600;
  margin: 0 0 6px; }
.lead { color: var(--soft); font-size: 1.05rem; margin-top: 6px; }
.what { color: var(--soft); max-width: 72ch; margin-bottom: 18px; }
.soft { color: var(--soft); }
svg + .soft { margin-top: 12px; }
.below { margin-top: 28px; }

.headline { display: grid; grid-template-columns: minmax(0, 2.2fr) minmax(0, 1fr)
  minmax(0, 1fr); gap: 8px 40px; margin: 28px 0 0; padding: 26px 28px 22px; }
.headline .label { font-size: 0.9rem; font-weight: 600; }
.headline .value { font-size: 2.1rem; font-weight: 650; line-height: 1.25;
  letter-spacing: -0.02em; }
.headline .first .value { font-size: 3.4rem; line-height: 1.1; color: var(--accent); }
.headline .about { color: var(--soft); font-size: 0.9rem; }
.headline svg { margin: 8px 0 4px; }
.notes { margin: 16px 0 0; padding: 0; list-style: none; }
.notes li { border-left: 3px solid var(--second); padding: 2px 0 2px 12px;
  margin-top: 8px; color: var(--soft); max-width: 90ch; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr));
  gap: 14px 28px; margin: 22px 0 0; padding: 0 28px; }
.facts dt { color: var(--soft); font-size: 0.82rem; }
.facts dd { margin: 0; font-weight: 600; }

main { display: flex; flex-wrap: wrap; gap: 20px; margin-top: 26px; }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 14px; }
section { flex: 1 1 100%; min-width: 0; padding: 24px 28px 26px; }
section.half { flex-basis: 460px; container-type: inline-size; }
@container (min-width: 760px) {
  .half > div { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1.5fr);
    gap: 48px; }
}
.split { display: grid; grid-template-columns: minmax(0, 1.35fr) minmax(0, 1fr);
  gap: 24px 44px; align-items: start; }
.several { display: grid; gap: 28px 40px;
  grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }

table { border-collapse: collapse; width: 100%; font-size: 0.95rem; }
caption { text-align: left; font-weight: 600; padding-bottom: 6px; }
th { text-align: left; font-weight: 600; font-size: 0.82rem; color: var(--soft);
  vertical-align: bottom; }
th, td { padding: 7px 14px 7px 0; border-bottom: 1px solid var(--faint); }
th:last-child, td:last-child { padding-right: 0; }
tbody tr:last-child td { border-bottom: 0; }
td { min-width: 6.8em; }
.num { text-align: right; white-space: nowrap; min-width: 0; }
th.num { white-space: normal; }
.meter { display: flex; align-items: center; gap: 10px; justify-content: flex-end; }
.meter svg { flex: 1 1 auto; min-width: 12px; max-width: 150px; }
.meter span { flex: 0 0 auto; min-width: 3.8em; text-align: right; }
.long span { min-width: 5.6em; }
.best { font-weight: 700; }
.cell-bar { height: 7px; border-radius: 3px; }
details { margin-top: 14px; }
summary { cursor: pointer; color: var(--accent); font-weight: 600; }
details table { margin-top: 10px; }

.tiles { display: grid; gap: 20px 18px;
  grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); }
.tiles.pairs { grid-template-columns: repeat(auto-fill, minmax(228px, 1fr)); }
figure { margin: 0; min-width: 0; font-size: 0.88rem; line-height: 1.4; }
figure img, .blank { display: block; width: 100%; aspect-ratio: 1; object-fit: contain;
  background: var(--faint); border-radius: 8px; }
figcaption { margin-top: 7px; }
.two { display: grid; grid-template-columns: 1fr 1fr; gap: 4px; }
.two > div { min-width: 0; }
.file { color: var(--soft); font-size: 0.78rem; display: -webkit-box;
  -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow: hidden; }
.says { display: flex; gap: 8px; justify-content: space-between; }
.says span + span { white-space: nowrap; }
.two .strong-text { margin-top: 5px; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.stages .meter svg { max-width: none; }
.stages td:first-child { width: 38%; }
.columns td:first-child { width: 34%; }
.columns .meter svg { max-width: none; }
.several:has(.pair-table) { gap: 18px;
  grid-template-columns: repeat(auto-fill, minmax(min(300px, 100%), 1fr)); }
.pair-table { border: 1px solid var(--edge); border-radius: 10px; padding: 10px 14px; }
.pair-table table { table-layout: fixed; font-size: 0.85rem; }
.pair-table th:first-child { width: 36%; }
.pair-table td, .pair-table th { padding: 4px 8px 4px 0; min-width: 0; }
.pair-table td:first-child { color: var(--soft); }
.differs { font-weight: 600; color: var(--accent); }
.bad { color: var(--wrong); font-weight: 600; }
.strong-text { font-weight: 600; }
footer { color: var(--soft); font-size: 0.85rem; margin-top: 26px; }

text { font-family: inherit; fill: var(--ink); text-anchor: middle; font-size: 12px; }
.tick, .small { fill: var(--soft); font-size: 11px; }
.small { font-size: 10px; }
.end { text-anchor: end; }
.start { text-anchor: start; }
.name { fill: var(--soft); font-size: 11px; font-weight: 600; }
.marked { font-weight: 600; font-size: 11.5px; stroke: var(--card); stroke-width: 4;
  paint-order: stroke; }
.grid { stroke: var(--grid); stroke-width: 1; }
.base { stroke: var(--soft); stroke-width: 1; }
.track { stroke: var(--faint); stroke-width: 10; stroke-linecap: round; }
.band { fill: var(--accent); fill-opacity: 0.32; }
.mark-line { stroke: var(--soft); stroke-width: 2; }
.ideal { stroke: var(--soft); stroke-width: 1.2; stroke-dasharray: 5 4; }
.error { stroke: var(--accent); stroke-width: 1.4; stroke-opacity: 0.55; }
.s0 { --hue: var(--accent); }
.s1 { --hue: var(--second); }
.dot { fill: var(--hue, var(--accent)); stroke: var(--card); stroke-width: 1.5; }
.curve { fill: none; stroke: var(--hue, var(--accent)); stroke-width: 2;
  stroke-linejoin: round; }
.spread { fill: var(--hue, var(--accent)); fill-opacity: 0.15; }
.key { fill: var(--hue, var(--accent)); }
.ring { fill: none; stroke: var(--ink); stroke-width: 1.6; }
.point { fill: var(--accent); fill-opacity: 0.5; }
.bar { fill: var(--accent); fill-opacity: 0.7; }
.bar.wrong { fill: var(--wrong); }
.bar-track { fill: var(--faint); }
.cell { fill: var(--faint); fill-opacity: 0.6; }
.right { fill: var(--accent); }
.wrong { fill: var(--wrong); }
.count { font-weight: 500; }
.right + .strong { fill: var(--on-accent); }
.wrong + .strong { fill: var(--on-wrong); }

@media screen and (max-width: 760px) {
  .page { padding: 24px 14px; }
  h1 { font-size: 1.7rem; }
  .headline { grid-template-columns: 1fr 1fr; padding: 20px 18px; gap: 18px 24px; }
  .headline .first { grid-column: 1 / -1; }
  .headline .first .value { font-size: 2.9rem; }
  .headline .value { font-size: 1.7rem; }
  .facts { padding: 0 18px;
    grid-template-columns: repeat(auto-fill, minmax(120px, 1fr)); }
  section { padding: 20px 16px 22px; }
  section.half { flex-basis: 100%; }
  .half > div { display: block; }
  .split { grid-template-columns: minmax(0, 1fr); }
  .tiles { gap: 16px 12px;
    grid-template-columns: repeat(auto-fill, minmax(130px, 1fr)); }
  .tiles.pairs { grid-template-columns: repeat(auto-fill, minmax(142px, 1fr)); }
  .tick, .name { font-size: 12px; }
  .classes th:last-child, .classes td:last-child { display: none; }
  table { font-size: 0.9rem; }
  td { min-width: 6.2em; }
  .num { min-width: 0; }
  th, td { padding-right: 8px; }
  .meter { flex-direction: column-reverse; align-items: flex-end; gap: 3px; }
  .meter svg { flex: none; width: 100%; }
}
@media print {
  :root { --page: #ffffff; font-size: 13px; }
  body { font-size: 13px; }
  .page { max-width: none; padding: 0; }
  .card { border-radius: 0; border-width: 1px 0 0; }
  main { gap: 8px; }
  section, .headline { padding: 14px 0; }
  section.half { flex-basis: 44%; }
  .facts { padding: 0; }
  figure, tr, svg, h2, .what { break-inside: avoid; }
  h2, .what { break-after: avoid; }
  .tiles { grid-template-columns: repeat(6, 1fr); }
  .tiles.pairs { grid-template-columns: repeat(4, 1fr); }
  details::details-content { content-visibility: visible; block-size: auto; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
