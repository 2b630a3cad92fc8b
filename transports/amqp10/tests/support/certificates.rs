//! Certificates in PEM, made by `openssl` in a folder.

use std::{path::Path, process::Command};

fn openssl(folder: &Path, name: &str, subject: &str, more: &[&str]) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", &format!("/CN={subject}")])
        .args(["-keyout", &format!("{name}-key.pem"), "-out", &format!("{name}.pem")])
        .args(more)
        .current_dir(folder)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{made:?}");
}

/// Makes the certificate of a server at `localhost`, which signs itself: `server.pem` and `server-key.pem`.
pub(crate) fn server(folder: &Path) {
    let extensions = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"];
    openssl(folder, "server", "localhost", &extensions);
}

/// Makes the certificate of a client, `client.pem` and `client-key.pem`, and of the authority that has signed it, `authority.pem`.
pub(crate) fn client(folder: &Path, name: &str) {
    openssl(folder, "authority", "authority", &[]);
    let signed =
        ["-CA", "authority.pem", "-CAkey", "authority-key.pem", "-addext", "basicConstraints=critical,CA:FALSE"];
    openssl(folder, "client", name, &signed);
}

pub(crate) fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("a file that was made")
}
