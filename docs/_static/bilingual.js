/* Light or dark, copy buttons, and links to the other language that keep the section. */
"use strict";

(() => {
  const root = document.documentElement;
  // Pages opened from a disk may have no storage.
  const stored = {
    get: () => { try { return localStorage.getItem("theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("theme", value); } catch { /* for this page only */ } },
  };
  if (stored.get()) root.dataset.theme = stored.get();

  const switchTheme = () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    stored.set(root.dataset.theme);
  };

  /** The code of a block without prompts and without what it prints. */
  const codeOf = (block) => {
    const copy = block.querySelector("pre").cloneNode(true);
    const isSession = copy.querySelector(".gp") !== null;
    copy.querySelectorAll(".gp, .go, .gt, .gr").forEach((part) => part.remove());
    const lines = copy.textContent.split("\n");
    return (isSession ? lines.filter((line) => line.trim() !== "") : lines).join("\n").trimEnd() + "\n";
  };

  const addCopyButton = (block) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = document.body.dataset.copy;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(codeOf(block));
      button.textContent = document.body.dataset.copied;
      setTimeout(() => { button.textContent = document.body.dataset.copy; }, 1500);
    });
    block.append(button);
  };

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
    document.querySelector("button.theme").addEventListener("click", switchTheme);
    // Browsers let pages from other machines copy only by HTTPS.
    if (navigator.clipboard) document.querySelectorAll("div.highlight").forEach(addCopyButton);
    document.querySelectorAll("nav.languages a").forEach(keepSection);
  });
})();
