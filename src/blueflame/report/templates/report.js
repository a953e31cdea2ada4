"use strict";
(() => {
  // What a bar of the timeline stands for, by pointer, finger or keyboard; without this the browser shows it by itself.
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);
  const titles = new WeakMap();
  const words = (bar) => {
    const title = bar.querySelector("title");
    if (title) {
      titles.set(bar, title.textContent);
      bar.setAttribute("aria-label", title.textContent);
      title.remove();
    }
    return titles.get(bar);
  };
  const show = (event) => {
    const bar = event.target.closest ? event.target.closest(".bar") : null;
    if (!bar) { tip.hidden = true; return; }
    tip.textContent = words(bar);
    tip.hidden = false;
    const at = bar.getBoundingClientRect();
    const wide = document.documentElement.clientWidth;
    const left = Math.min(Math.max(at.left + at.width / 2 - tip.offsetWidth / 2, 8), wide - tip.offsetWidth - 8);
    const above = at.top > tip.offsetHeight + 12;
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${(above ? at.top - tip.offsetHeight - 8 : at.bottom + 8) + window.scrollY}px`;
  };
  for (const kind of ["pointerover", "focusin", "click"]) document.addEventListener(kind, show);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });
  // A link to something that is folded away opens it.
  const open = () => {
    const target = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    for (let at = target; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    if (target) target.scrollIntoView();
  };
  window.addEventListener("hashchange", open);
  open();
})();
