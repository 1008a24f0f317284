// Updates the part #live of the page every five seconds, and asks for confirmation of changes that cannot be undone.
// The pages also work without this script.
"use strict";

const auto = document.getElementById("auto");
auto.closest("label").hidden = false;

async function update() {
  const live = document.getElementById("live");
  if (!auto.checked || document.hidden || live.contains(document.activeElement)) return;
  const response = await fetch(location.href, { credentials: "same-origin" });
  if (!response.ok) throw new Error(String(response.status));
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("live");
  if (fresh && !live.contains(document.activeElement)) {
    const places = [...live.querySelectorAll(".wide")].map((part) => part.scrollLeft);
    live.replaceWith(fresh);
    fresh.querySelectorAll(".wide").forEach((part, index) => { part.scrollLeft = places[index] || 0; });
  }
}

async function keepUpdating() {
  document.body.classList.remove("stale");
  try {
    await update();
  } catch {
    document.body.classList.add("stale");
  }
  setTimeout(keepUpdating, 5000);
}

setTimeout(keepUpdating, 5000);

document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
