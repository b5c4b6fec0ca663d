// Colours of the timeline: a hue for each phase, a lightness for each sink.

const HUES = { // degrees, chroma
  plan: [250, 0.03], read: [245, 0.05], reading: [245, 0.05], begin: [260, 0.09], compute: [245, 0.11],
  write: [180, 0.085], pre_commit: [85, 0.115], vote: [85, 0.115], decide: [320, 0.12], commit: [150, 0.13], other: [250, 0.015],
};
const OTHERS = [[40, 0.1], [20, 0.1], [110, 0.09], [290, 0.09]];
const LIGHT = [0.56, 0.7, 0.46, 0.8, 0.63];
const DARK = [0.7, 0.56, 0.8, 0.46, 0.63];
const DRAWN = ["ink", "soft", "line", "raised", "paper", "good", "bad", "open", "busy", "kill", "band", "rows"];

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colour of each of the series, in their order. */
export function colours(series) {
  const sinks = [...new Set(series.map((it) => it.sink).filter((it) => it !== null))];
  const strange = [...new Set(series.map((it) => it.name).filter((it) => !Object.hasOwn(HUES, it)))];
  const shades = isDark() ? DARK : LIGHT;
  return series.map((it) => {
    const [hue, chroma] = Object.hasOwn(HUES, it.name) ? HUES[it.name] : OTHERS[strange.indexOf(it.name) % OTHERS.length];
    const light = shades[Math.max(0, sinks.indexOf(it.sink)) % shades.length];
    return `oklch(${light} ${chroma} ${hue})`;
  });
}

/** The page's own colours, for what is drawn on a canvas. */
export function tones() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(DRAWN.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}
