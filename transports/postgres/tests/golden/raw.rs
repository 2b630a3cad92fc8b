//! The rows of a schema, read and written in SQL alone.

use consign_conformance::golden;
use consign_postgres::tokio_postgres::{Client, NoTls};
use serde_json::{Value as Json, json};

/// The columns of each table that this crate reads. Columns of text come apart, byte by byte as they are stored. Times that
/// differ in each run are what they are to the others: a message that was enqueued now.
const TABLES: [(&str, &str, &str); 8] = [
    ("entities", "*", "id"),
    ("numbers", "*", "entity"),
    ("rules", "subscription, key, rule::text AS rule", "subscription, key"),
    ("sessions", "*", "entity, session"),
    ("ids", "entity, id, message", "entity, id"),
    (
        "messages",
        "id, entity, number, origin, at, ttl_ms, token, holder, size, failures, part, state, hops, stays, session, reason,
        description, source, properties::text AS properties, body,
        CASE expires WHEN 'infinity' THEN NULL ELSE (extract(epoch FROM expires - enqueued) * 1000)::bigint END AS expires_ms,
        CASE due WHEN 'infinity' THEN 'never' WHEN expires THEN 'expires' WHEN at THEN 'at' ELSE 'other' END AS due",
        "id",
    ),
    ("plain", "id, size, ttl_ms, origin, hops, source, properties::text AS properties, body", "id"),
    ("batches", "entity, id, count, taken, size, due", "id"),
];

pub(crate) struct Raw {
    client: Client,
    schema: String,
}

impl Raw {
    pub(crate) async fn new(url: &str, schema: &str) -> Self {
        let (client, connection) = consign_postgres::tokio_postgres::connect(url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("SET timezone = 'UTC'").await.unwrap();
        Self { client, schema: schema.to_owned() }
    }

    /// All rows that say something of messages.
    pub(crate) async fn read(&self) -> Vec<Json> {
        let mut entries = Vec::new();
        for (table, columns, order) in TABLES {
            let schema = &self.schema;
            let sql = format!(
                "SELECT row_to_json(r)::text FROM (SELECT {columns} FROM {schema}.{table} ORDER BY {order}) AS r"
            );
            for row in self.client.query(&sql, &[]).await.unwrap() {
                let mut row: Json = serde_json::from_str(row.get(0)).unwrap();
                for column in row.as_object_mut().unwrap().values_mut() {
                    if let Some(digits) = column.as_str().and_then(|text| text.strip_prefix("\\x")) {
                        *column = json!({ "bytea": golden::bytes(&golden::bytes_of(&json!({ "hex": digits }))) });
                    }
                }
                entries.push(json!({ "table": table, "row": row }));
            }
        }
        serde_json::from_str(&golden::constant_uuids(&json!(entries).to_string())).unwrap()
    }

    /// Stores what [`read`](Self::read) has returned.
    pub(crate) async fn write(&self, entries: &[Json]) {
        for entry in entries {
            let (table, mut row) = (entry["table"].as_str().unwrap(), entry["row"].clone());
            let schema = &self.schema;
            for column in row.as_object_mut().unwrap().values_mut() {
                if let Some(bytes) = column.get("bytea") {
                    *column = json!(format!("\\x{}", golden::hex(&golden::bytes_of(bytes))));
                }
            }
            let mut take = |column: &str| row.as_object_mut().unwrap().remove(column).unwrap_or_default();
            let (properties, rule, due) = (take("properties"), take("rule"), take("due"));
            let expires = take("expires_ms");
            match table {
                "messages" => {
                    row["properties"] = json!({});
                    row["enqueued"] = json!("now");
                    row["expires"] = json!("infinity");
                    row["due"] = json!("infinity");
                }
                "plain" => (row["properties"], row["enqueued"]) = (properties.clone(), json!("now")),
                "batches" => row["due"] = due.clone(),
                "rules" => row["rule"] = json!({}),
                "ids" => row["until"] = json!("infinity"),
                _ => {}
            }
            let insert = format!(
                "INSERT INTO {schema}.{table} OVERRIDING SYSTEM VALUE
                SELECT * FROM json_populate_record(NULL::{schema}.{table}, $1::text::json)"
            );
            self.client.execute(&insert, &[&row.to_string()]).await.unwrap();
            if let Some(rule) = rule.as_str() {
                let sql =
                    format!("UPDATE {schema}.rules SET rule = $1::text::json WHERE subscription = $2 AND key = $3");
                let (of, key) = (row["subscription"].as_i64(), row["key"].as_str());
                self.client.execute(&sql, &[&rule, &of, &key]).await.unwrap();
            }
            if table == "messages"
                && let Some(properties) = properties.as_str()
            {
                let expires = expires.as_i64();
                let sql = format!(
                    "UPDATE {schema}.messages SET properties = $1::text::json,
                        expires = coalesce(enqueued + $2::bigint * interval '1 millisecond', 'infinity') WHERE id = $3"
                );
                let id = row["id"].as_i64();
                self.client.execute(&sql, &[&properties, &expires, &id]).await.unwrap();
                let due = match due.as_str().unwrap() {
                    "never" => "'infinity'",
                    other => other,
                };
                let sql = format!("UPDATE {schema}.messages SET due = {due} WHERE id = $1");
                self.client.execute(&sql, &[&id]).await.unwrap();
            }
        }
    }
}
