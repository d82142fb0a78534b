//! Sockets: unix or TCP, from the connection string.

use postgres_protocol::message::frontend;
use rustix::fd::OwnedFd;
use rustix::net::sockopt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Unix(PathBuf),
    Named(String, u16),
    Addressed(IpAddr, u16),
}

impl Place {
    /// Whether the server's processes are on this machine.
    pub fn is_local(&self) -> bool {
        matches!(self, Place::Unix(_))
    }
}

/// The places that a connection string names, in order.
pub(super) fn places(config: &postgres::Config) -> Result<Vec<Place>, String> {
    use postgres::config::{Host, SslMode};
    if config.get_ssl_mode() == SslMode::Require {
        return Err(
            "sslmode=require asks for TLS, which hardmeter does not support here: use sslmode=disable, or a tunnel".into(),
        );
    }
    let ports = config.get_ports();
    let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
    // hostaddr takes precedence over the host at its position, as in libpq.
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let place = |at: usize| match (addresses.get(at), hosts.get(at)) {
        (Some(address), _) => Place::Addressed(*address, port(at)),
        (None, Some(Host::Tcp(name))) => Place::Named(name.clone(), port(at)),
        (None, Some(Host::Unix(folder))) => Place::Unix(folder.join(format!(".s.PGSQL.{}", port(at)))),
        (None, None) => Place::Unix(PathBuf::from(format!("/var/run/postgresql/.s.PGSQL.{}", port(at)))),
    };
    Ok((0..hosts.len().max(addresses.len()).max(1)).map(place).collect())
}

/// Connects; the socket is blocking.
pub(super) fn connect_to(place: &Place, config: &postgres::Config, deadline: Instant) -> io::Result<OwnedFd> {
    let addresses: Vec<SocketAddr> = match place {
        Place::Unix(path) => return Ok(UnixStream::connect(path)?.into()),
        Place::Named(name, port) => (name.as_str(), *port).to_socket_addrs()?.collect(),
        Place::Addressed(address, port) => vec![(*address, *port).into()],
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let socket = OwnedFd::from(stream);
                if config.get_keepalives() {
                    sockopt::set_socket_keepalive(&socket, true)?;
                    sockopt::set_tcp_keepidle(&socket, config.get_keepalives_idle())?;
                }
                return Ok(socket);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Requests the server to cancel a process's statement, and waits for its receipt.
pub(super) fn cancel(place: &Place, config: &postgres::Config, process: i32, key: i32) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let socket = connect_to(place, config, Instant::now() + PATIENCE)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    let mut request = bytes::BytesMut::new();
    frontend::cancel_request(process, key, &mut request);
    let mut stream = std::fs::File::from(socket);
    stream.write_all(&request)?;
    // The server closes the connection once it has sent its signal.
    stream.read(&mut [0]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Place>, String> {
        places(hardmeter_session::Target::parse(text).unwrap().config())
    }

    #[test]
    fn places_are_those_of_the_connection_string() {
        assert_eq!(of("host=/tmp/s port=5433").unwrap(), [Place::Unix("/tmp/s/.s.PGSQL.5433".into())]);
        assert_eq!(of("").unwrap(), [Place::Unix("/var/run/postgresql/.s.PGSQL.5432".into())]);
        let two = [Place::Named("a".into(), 1), Place::Named("b".into(), 2)];
        assert_eq!(of("host=a,b port=1,2").unwrap(), two);
        let address = Place::Addressed("127.0.0.1".parse().unwrap(), 5432);
        assert_eq!(of("host=a hostaddr=127.0.0.1").unwrap(), std::slice::from_ref(&address));
        assert_eq!((address.is_local(), of("").unwrap()[0].is_local()), (false, true));
        assert!(of("host=a sslmode=require").unwrap_err().contains("TLS"));
    }
}
