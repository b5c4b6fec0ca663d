// Before anything is painted: light or dark as the reader chose here, or else as the system says.
const CHOICE = "onceward-theme";
function read() {
  try { return localStorage.getItem(CHOICE); } catch { return null; } // storage may be switched off
}
const chosen = read();
if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
