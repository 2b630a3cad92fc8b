// Entities, messages and bodies.

import { journey, require, same, until } from "./support.mjs";

journey("entities_are_listed_with_counts", async (v) => {
  await v.go("");
  await v.has("212 entities");
  const row = v.page.locator('tr[data-entity="orders"]');
  same("the active messages", await row.locator('[data-count="active"]').innerText(), "120");
  same("the dead letters", await row.locator('[data-count="dead"]').innerText(), "10000");
  same("the rows of the first page", await v.count("tbody tr"), 100);
  await v.link("Next");
  same("the rows of the second page", await v.count("tbody tr"), 100);
  await v.shot("entities");
});

journey("entities_are_filtered_by_path", async (v) => {
  await v.go("");
  await v.page.getByLabel("Path contains").fill("TENANTS/01");
  await v.button("Filter");
  same("the rows", await v.count("tbody tr"), 10);
  await v.page.getByLabel("Path contains").fill("none of them");
  await v.button("Filter");
  await v.has("No path contains this text.");
});

journey("counts_change_without_a_reload", async (v) => {
  await v.go("?q=live");
  const active = v.page.locator('tr[data-entity="live"] [data-count="active"]');
  const before = Number(await active.innerText());
  await v.page.evaluate(() => (window.sameDocument = true));
  await v.server.send("live", { body: "1" }, { body: "2" }, { body: "3" });
  await until("the new count is shown", async () => Number(await active.innerText()) === before + 3);
  require(await v.page.evaluate(() => window.sameDocument), "the page was loaded again");
});

journey("depth_and_rates_are_plotted", async (v) => {
  await v.messages("live");
  const points = (plot) => v.page.locator(`.head [data-plot="${plot}"]`).getAttribute("points");
  const first = await points("depth");
  await v.server.send("live", ...Array.from({ length: 40 }, (_, number) => ({ body: number })));
  await until("the depth moves", async () => (await points("depth")) !== first);
  await until("arrivals are above the ground", async () => (await points("arrivals")).split(" ").some((at) => !at.endsWith(",23.0")));
  await v.shot("plots");
});

journey("messages_are_paged", async (v) => {
  await v.messages("orders");
  same("the rows", await v.count("tbody tr"), 50);
  await v.link("Next page");
  await v.link("Next page");
  same("the rows of the last page", await v.count("tbody tr"), 20);
  same("the links to a further page", await v.count('a[rel="next"]'), 0);
  await v.link("First page");
  await v.has("Messages from number 10001 on");
  await v.shot("messages");
});

journey("messages_are_filtered", async (v) => {
  await v.messages("orders");
  await v.page.getByLabel("Properties contain").fill("order-10077");
  await v.button("Filter");
  same("the rows", await v.count("tbody tr"), 1);
  await v.page.getByLabel("State").selectOption("scheduled");
  await v.button("Filter");
  await v.has("There are no messages.");
});

const body = async (v, number) => {
  await v.go(`message?path=formats&number=${number}`);
  return v.text("pre");
};
const json = '{\n  "sku": "a",\n  "count": 3\n}';

journey("json_is_shown_on_lines", async (v) => {
  same("the body", await body(v, 1), json);
  await v.shot("message");
});

journey("messagepack_is_shown_as_json", async (v) => {
  same("the body", await body(v, 2), json);
  await v.has("MessagePack, as JSON");
});

journey("cbor_is_shown_as_json", async (v) => {
  same("the body", await body(v, 3), json);
  await v.has("CBOR, as JSON");
});

journey("text_and_bytes_are_shown", async (v) => {
  same("the text", await body(v, 4), "Grüße\nfrom a text");
  require((await body(v, 5)).startsWith("00000000  00 01 fe ff 3c 62 3e"), "the bytes are in digits");
  const [download] = await Promise.all([v.page.waitForEvent("download"), v.link("Download")]);
  same("the name of the file", download.suggestedFilename(), "message-5");
});

journey("sessions_are_listed", async (v) => {
  await v.messages("carts");
  await v.link("Sessions");
  same("the sessions", await v.page.locator("tbody th").allInnerTexts(), ["cart-0", "cart-1", "cart-2"]);
  await v.link("Find");
  same("the messages of the first", await v.count("tbody tr"), 2);
});

journey("a_scheduled_message_is_cancelled", async (v) => {
  await v.messages("plans");
  await v.link("Scheduled");
  same("the scheduled messages", await v.count("tbody tr"), 4);
  await v.firstMessage();
  await v.click(v.page.getByText("Cancel this scheduled message"));
  await v.button("Cancel the message");
  same("the scheduled messages", await v.count("tbody tr"), 3);
});

journey("a_missing_entity_is_an_error_page", async (v) => {
  await v.messages("no-such-queue");
  await v.has("Error 404");
  await v.link("Back to the entities");
  await v.has("212 entities");
}, { quiet: false });
