//! The page and the metrics over HTTP, on loopback only.
//!
//! A malicious page may make a browser request this server under another name (DNS rebinding) or from another
//! page: requests whose `Host` is not a loopback name, and those with a foreign `Origin`, are rejected.

use super::{metrics, page};
use crate::state::{State, StateError};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use tiny_http::{Header, Method, Request, Response, Server};

/// The reason why it cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Not a loopback address.
    #[error("{0} is not a loopback address: a server's requests are confidential")]
    NotLoopback(SocketAddr),
    /// The port is taken, or its use is not allowed.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, String),
}

/// A listening socket.
pub struct Listener(Server);

impl Listener {
    /// Listens on a loopback address; port 0: any free one.
    ///
    /// # Errors
    ///
    /// [`ServeError`] if the address is not a loopback address, or cannot be bound.
    pub fn open(address: SocketAddr) -> Result<Listener, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback(address));
        }
        Server::http(address).map(Listener).map_err(|error| ServeError::Listen(address, error.to_string()))
    }

    /// The address on which it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.0.server_addr().to_ip()
    }

    /// Answers one request, if one arrives within the time; `now_ns` returns CLOCK_MONOTONIC.
    pub fn serve_one(&self, folder: &Path, patience: std::time::Duration, now_ns: fn() -> u64) {
        // A client that disconnects is not an error.
        if let Ok(Some(request)) = self.0.recv_timeout(patience) {
            let answer = answer(&request, folder, now_ns());
            let _ = request.respond(answer);
        }
    }
}

type Answer = Response<std::io::Cursor<Vec<u8>>>;

fn answer(request: &Request, folder: &Path, now_ns: u64) -> Answer {
    let field = |name: &'static str| {
        request.headers().iter().find(|header| header.field.equiv(name)).map(|header| header.value.as_str())
    };
    if !is_ours(field("Host"), field("Origin")) {
        return plain(403, "only for this machine's own names and pages\n");
    }
    if !matches!(request.method(), Method::Get | Method::Head) {
        return plain(405, "nothing here can be changed\n");
    }
    let path = request.url().split('?').next().unwrap_or_default();
    if !["/", "/metrics", "/state.json"].contains(&path) {
        return plain(404, "there are /, /metrics and /state.json\n");
    }
    let state = match State::read(folder) {
        Ok(state) => state,
        Err(error @ StateError::Missing(_)) => return plain(503, &format!("{error}\n")),
        Err(error) => return plain(500, &format!("{error}\n")),
    };
    match path {
        "/metrics" => typed(metrics::CONTENT_TYPE, metrics::text(&state, now_ns)),
        "/state.json" => match serde_json::to_string(&state) {
            Ok(text) => typed("application/json", text),
            Err(error) => plain(500, &format!("{error}\n")),
        },
        _ => typed("text/html; charset=utf-8", page::page(&state, now_ns)),
    }
}

/// True if a request uses a loopback name, and does not come from a foreign page.
fn is_ours(host: Option<&str>, origin: Option<&str>) -> bool {
    let is_loopback = |host: &str| {
        // [::1]:9000, 127.0.0.1:9000, localhost
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    let Some(host) = host.filter(|host| is_loopback(host)) else { return false };
    origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(host))
}

fn plain(status: u16, text: &str) -> Answer {
    Response::from_string(text).with_status_code(status)
}

fn typed(kind: &str, text: String) -> Answer {
    let header = Header::from_bytes("Content-Type", kind).expect("a valid header");
    let no_sniff = Header::from_bytes("X-Content-Type-Options", "nosniff").expect("a valid header");
    Response::from_string(text).with_header(header).with_header(no_sniff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    fn ask(listener: &Listener, folder: &Path, request: &str) -> String {
        let mut stream = TcpStream::connect(listener.address().unwrap()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        listener.serve_one(folder, Duration::from_secs(10), || 5_000_000_000);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn only_loopback_names_and_own_pages_are_answered() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::open("127.0.0.1:0".parse().unwrap()).unwrap();
        let ask = |request: &str| ask(&listener, folder.path(), request);
        assert!(ask("GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.0 503"));
        testing::state().write(folder.path()).unwrap();
        let page = ask("GET / HTTP/1.0\r\nHost: 127.0.0.1:8\r\nOrigin: http://127.0.0.1:8\r\n\r\n");
        assert!(page.starts_with("HTTP/1.0 200") && page.contains("ViewItem.php"), "{page}");
        assert!(ask("GET /metrics HTTP/1.0\r\nHost: [::1]:9\r\n\r\n").contains("# EOF"));
        assert!(ask("GET /metrics HTTP/1.0\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.0 403"));
        assert!(ask("GET / HTTP/1.0\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n")
            .starts_with("HTTP/1.0 403"));
        assert!(ask("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 403"));
        assert!(ask("POST / HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
            .starts_with("HTTP/1.0 405"));
        assert!(ask("GET /etc/passwd HTTP/1.0\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.0 404"));
    }

    #[test]
    fn other_addresses_are_refused() {
        let refused = Listener::open("0.0.0.0:0".parse().unwrap());
        assert!(matches!(refused, Err(ServeError::NotLoopback(_))));
    }
}
