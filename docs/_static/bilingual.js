/* Links to the other language that keep the section. */
"use strict";

(() => {
  /** The section that is being read: the one asked for while it is in sight, else the last above. */
  const sectionRead = () => {
    const topOf = (element) => element.getBoundingClientRect().top;
    const asked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (asked && topOf(asked) >= 0 && topOf(asked) < innerHeight) return location.hash;
    const above = [...document.querySelectorAll("main section[id]")].filter(
      (section) => topOf(section) < innerHeight / 3);
    return above.length > 1 ? "#" + above.at(-1).id : "";
  };

  const keepSection = (link) => {
    const page = link.getAttribute("href");
    const follow = () => { link.setAttribute("href", page + location.search + sectionRead()); };
    for (const event of ["pointerdown", "focus", "click"]) link.addEventListener(event, follow);
  };

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("nav.languages a").forEach(keepSection);
  });
})();
