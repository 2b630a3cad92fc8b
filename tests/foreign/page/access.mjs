// Keyboards, small and large screens, dark mode, and browsers without scripts.

import { data, journey, require, same, until, withServer } from "./support.mjs";

const PAGES = [
  "",
  "messages?path=orders",
  "message?path=formats&number=1",
  "message?path=formats&number=5",
  "dead-letters?path=orders",
  "message?path=payments/$deadletterqueue&number=2",
  "edit?path=payments/$deadletterqueue&number=2",
  "confirm?action=resubmit&path=payments",
  "sessions?path=carts",
  "jobs",
  "messages?path=no-such-queue",
];

journey("everything_is_done_by_the_keyboard", async (v) => {
  const focused = () => v.page.evaluate(() => (document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent).trim());
  const tabTo = async (name) => {
    for (let tabs = 0; tabs < 200; tabs++) {
      await v.page.keyboard.press("Tab");
      if ((await focused()) === name) {
        const outline = await v.page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
        require(outline !== "none", `the focus on ${name} is visible`);
        return;
      }
    }
    throw new Error(`the keyboard does not reach ${name}`);
  };
  await v.go("?q=refunds");
  await v.page.keyboard.press("Tab");
  same("the first link", await focused(), "Skip to content");
  await tabTo("refunds");
  await v.page.keyboard.press("Enter");
  await v.page.getByRole("heading", { name: "Messages of refunds" }).waitFor();
  await tabTo("Dead letters");
  await v.page.keyboard.press("Enter");
  await v.page.getByRole("heading", { name: "Dead letters of refunds" }).waitFor();
  await tabTo("Resubmit the group DeserializationFailed");
  await v.page.keyboard.press("Enter");
  await v.page.getByRole("heading", { name: "Resubmit 3 dead letters" }).waitFor();
  await tabTo("Resubmit");
  await v.page.keyboard.press("Enter");
  await until("the job is done", async () => (await v.jobState()) === "done");
  same("the copies", await v.jobDone(), 3);
  const copies = await v.server.drain("refunds", 3);
  same("what arrived", copies.length, 3);
});

const fits = async (v, width) => {
  for (const address of PAGES) {
    const response = await v.go(address);
    same(`the status of ${address}`, response.status(), address.includes("no-such") ? 404 : 200);
    const shown = await v.page.evaluate(() => document.documentElement.scrollWidth);
    require(shown <= width, `${address || "entities"} is ${shown} wide on a screen of ${width}`);
    await v.shot(`${width}-${address.replaceAll(/[^a-z0-9]+/g, "-") || "entities"}`, address !== "" && address !== "messages?path=orders");
  }
};

journey("all_pages_fit_400_pixels", (v) => fits(v, 400), { viewport: { width: 400, height: 800 }, quiet: false });
journey("all_pages_fit_1600_pixels", (v) => fits(v, 1_600), { viewport: { width: 1_600, height: 1_000 }, quiet: false });

// The contrast of text on its ground: 4.5 at least, as WCAG 2.2 has it.
const contrasts = (page) => page.evaluate(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [red, green, blue] = parts(colour).map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const [one, other] = [luminance(getComputedStyle(element).color), luminance(ground(element))].sort((a, b) => b - a);
    const contrast = (one + 0.05) / (other + 0.05);
    if (contrast < 4.5) low.push(`${element.tagName} ${element.textContent.trim().slice(0, 30)}: ${contrast.toFixed(1)}`);
  }
  return low;
});

for (const colorScheme of ["light", "dark"]) {
  journey(`text_is_readable_in_${colorScheme}_mode`, async (v) => {
    for (const address of PAGES) {
      await v.go(address);
      same(`low contrasts of ${address}`, await contrasts(v.page), []);
      const ground = await v.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      same("the ground", ground, colorScheme === "dark" ? "rgb(18, 23, 29)" : "rgb(255, 255, 255)");
    }
    await v.deadLetters("orders");
    await v.shot(`${colorScheme}-groups`);
    await v.go("message?path=formats&number=1");
    await v.shot(`${colorScheme}-message`);
    await v.go("");
    await v.shot(`${colorScheme}-entities`);
  }, { colorScheme, quiet: false });
}

journey("the_page_works_without_scripts", (v) => withServer([...data("undone"), "--undo-window", "10m"], async (server) => {
  v.server = server;
  await v.go("?q=payments");
  await v.link("payments");
  await v.link("Dead letters");
  await v.link("Remove all …");
  await v.button("Remove");
  await v.button("Undo");
  await v.has("stopped");
}), { javaScriptEnabled: false });

journey("every_field_and_figure_has_a_name", async (v) => {
  for (const address of PAGES) {
    await v.go(address);
    const nameless = await v.page.evaluate(() => {
      const fields = [...document.querySelectorAll("input:not([type=hidden]), select, textarea")];
      const links = [...document.querySelectorAll("a, button")];
      const figures = [...document.querySelectorAll("svg, progress, table")];
      return [
        ...fields.filter((field) => field.labels.length === 0),
        ...links.filter((link) => !(link.getAttribute("aria-label") ?? link.textContent).trim()),
        ...figures.filter((figure) => !figure.getAttribute("aria-label") && !figure.querySelector("caption")),
      ].map((element) => element.outerHTML.slice(0, 100));
    });
    same(`what has no name on ${address}`, nameless, []);
    same(`headings of ${address}`, await v.count("h1"), 1);
  }
}, { quiet: false });
