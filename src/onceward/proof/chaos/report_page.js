// A closer look keeps the middle of the screen where it was. Without this script the zoom works all the same.
const scroll = document.querySelector(".timeline .scroll");
let middle = 0;
scroll.addEventListener("scroll", () => {
  middle = (scroll.scrollLeft + scroll.clientWidth / 2) / scroll.scrollWidth;
});
for (const button of document.querySelectorAll("input[name=zoom]")) {
  button.addEventListener("change", () => {
    scroll.scrollLeft = (middle || 0.5) * scroll.scrollWidth - scroll.clientWidth / 2;
  });
}
