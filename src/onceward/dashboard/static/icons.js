// Small pictures, drawn here: a state has a shape, not only a colour.
import { h } from "./view.js";

const DRAWN = {
  running: ["M5 3.2v9.6L13 8z", "fill"],
  recovering: ["M12.9 6.2A5.2 5.2 0 1 0 13 9.9M13.2 2.6v3.8H9.4"],
  waiting: ["M8 2.6a5.4 5.4 0 1 0 0 10.8a5.4 5.4 0 1 0 0-10.8M8 5v3.2l2.2 1.6"],
  "in doubt": ["M5.2 5.6a2.9 2.9 0 1 1 4.3 2.7C8.4 8.9 8 9.4 8 10.4M8 12.9v.2"],
  stopped: ["M4 4h8v8H4z", "fill"],
  paused: ["M5.4 3.4v9.2M10.6 3.4v9.2"],
  fenced: ["M8 2.6a5.4 5.4 0 1 0 0 10.8a5.4 5.4 0 1 0 0-10.8M4.3 4.3l7.4 7.4"],
  failed: ["M4 4l8 8M12 4l-8 8"],
  damaged: ["M8 2.4L14.2 13.4H1.8zM8 6.6v3M8 11.5v.2"],
  gone: ["M3.2 8h.1M6.4 8h.1M9.6 8h.1M12.8 8h.1"],
  takeover: ["M4 13.6V2.6h8.4L10 5.4l2.4 2.8H4"],
  killed: ["M4 4l8 8M12 4l-8 8"],
  aborted: ["M12.8 8H4.4M7.6 4.6L4.2 8l3.4 3.4"],
  reset: ["M12.9 6.2A5.2 5.2 0 1 0 13 9.9M13.2 2.6v3.8H9.4"],
  restored: ["M3.1 6.2A5.2 5.2 0 1 1 3 9.9M2.8 2.6v3.8h3.8"],
  skipped: ["M3.4 4l5 4-5 4zM9.4 4l5 4-5 4z"],
  topic: ["M2.4 4.4h11.2M2.4 8h11.2M2.4 11.6h11.2"],
  table: ["M2.4 3.2h11.2v9.6H2.4zM2.4 6.4h11.2M6.2 6.4v6.4"],
  files: ["M4 2.4h5.2L12 5.2v8.4H4zM9 2.6v2.8h2.8"],
  lake: ["M2 5.6c1.5-1.4 3-1.4 4.5 0s3 1.4 4.5 0 2-1.4 3-1M2 10.2c1.5-1.4 3-1.4 4.5 0s3 1.4 4.5 0 2-1.4 3-1"],
  pipeline: ["M2.4 8h3M10.6 8h3M5.4 4.6h5.2v6.8H5.4z"],
  yes: ["M3.2 8.4l3.2 3.2 6.4-7"],
  no: ["M4 8h8"],
  decides: ["M8 2l1.9 3.9 4.3.6-3.1 3 .7 4.3L8 11.8l-3.8 2 .7-4.3-3.1-3 4.3-.6z", "fill"],
  close: ["M4 4l8 8M12 4l-8 8"],
  left: ["M10 3.4L5.2 8l4.8 4.6"],
  right: ["M6 3.4L10.8 8 6 12.6"],
  newest: ["M4 3.4L8.8 8 4 12.6M12 3.4v9.2"],
  plus: ["M8 3v10M3 8h10"],
  minus: ["M3 8h10"],
  sun: ["M8 5.2a2.8 2.8 0 1 0 0 5.6a2.8 2.8 0 1 0 0-5.6M8 1.4v1.4M8 13.2v1.4M1.4 8h1.4M13.2 8h1.4M3.3 3.3l1 1M11.7 11.7l1 1M12.7 3.3l-1 1M4.3 11.7l-1 1"],
  moon: ["M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6z"],
  system: ["M8 2.6a5.4 5.4 0 1 0 0 10.8z", "fill", "M8 2.6a5.4 5.4 0 1 1 0 10.8"],
  fit: ["M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3"],
};
const OTHER = ["M8 2.6a5.4 5.4 0 1 0 0 10.8a5.4 5.4 0 1 0 0-10.8"];

export function pathOf(name) {
  return (Object.hasOwn(DRAWN, name) ? DRAWN[name] : OTHER)[0];
}

export function filled(name) {
  return Object.hasOwn(DRAWN, name) && DRAWN[name][1] === "fill";
}

/** Decoration: whoever cannot see it reads the word beside it. */
export function icon(name, more = "") {
  const [path, fill, second] = Object.hasOwn(DRAWN, name) ? DRAWN[name] : OTHER;
  return h("svg", { class: `icon ${more}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    h("path", { d: path, class: fill ? "solid" : null }),
    second ? h("path", { d: second }) : null);
}
