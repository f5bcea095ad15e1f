// Figures as texts.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const NONE = "–";

export function whole(number) {
  return number === null || number === undefined ? NONE : WHOLE.format(number);
}

export function rate(number) {
  if (number === null || number === undefined) return NONE;
  return (Math.abs(number) < 100 ? TENTHS : WHOLE).format(number);
}

export function part(share) {
  return share === null || share === undefined ? NONE : `${TENTHS.format(share * 100)}%`;
}

// From milliseconds: 0.3 ms, 12 ms, 3.4 s, 5 min.
export function time(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 10) return `${Number(ms.toPrecision(2))} ms`;
  if (ms < 1000) return `${WHOLE.format(ms)} ms`;
  if (ms < 120_000) return `${TENTHS.format(ms / 1000)} s`;
  if (ms < 7_200_000) return `${WHOLE.format(ms / 60_000)} min`;
  return `${TENTHS.format(ms / 3_600_000)} h`;
}
