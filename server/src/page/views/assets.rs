use axum::{
    extract::Path,
    http::header,
    response::{IntoResponse, Response},
};

use crate::page::error::PageError;

/// The files of the page: name, media type, content.
const ASSETS: [(&str, &str, &str); 3] = [
    ("icon.svg", "image/svg+xml", include_str!("../../../assets/icon.svg")),
    ("page.css", "text/css; charset=utf-8", include_str!("../../../assets/page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("../../../assets/page.js")),
];

pub(super) async fn get(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        // Another version of the program may have another file.
        Some((_, media_type, content)) => {
            ([(header::CONTENT_TYPE, *media_type), (header::CACHE_CONTROL, "no-cache")], *content).into_response()
        }
        None => PageError::not_found("file").into_response(),
    }
}
