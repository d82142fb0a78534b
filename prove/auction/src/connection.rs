//! One connection to the site: nonblocking, kept between requests.

use crate::http::Answer;
use crate::record::Fault;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::net::SocketAddr;

/// Raises this process's limit of open files as far as its rights allow; beyond it, opening a connection fails with
/// an error.
pub fn allow_connections(count: usize) {
    use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};
    // For the program's other files.
    let wanted = count as u64 + 100;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < wanted) {
        let most = limit.maximum.map_or(wanted, |most| most.min(wanted));
        // If refused, the first connection beyond the limit reports it.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

/// All events, edge-triggered: a connection is added once and never changed. Closing it removes it from the set.
const EVENTS: EventFlags =
    EventFlags::IN.union(EventFlags::OUT).union(EventFlags::RDHUP).union(EventFlags::ET);

/// One connection, open or not.
#[derive(Default)]
pub(crate) struct Connection {
    socket: Option<OwnedFd>,
    connecting: bool,
    /// Whether it has carried an answer already: the server may close it at any time between two.
    kept: bool,
    /// The request, and the number of bytes sent.
    request: Vec<u8>,
    sent: usize,
    /// The received answer.
    pub answer: Answer,
}

/// The state of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Waiting,
    Complete,
    /// The server closed a kept connection without an answer while the request was sent: when Apache's event MPM
    /// runs out of workers, it closes idle connections. The request is to be sent again, as browsers do and RFC
    /// 9110 (9.2.2) allows for requests that only read.
    Closed,
    Failed(Fault),
}

impl Connection {
    /// The request that is to be sent next, to be written into.
    pub fn request(&mut self) -> &mut Vec<u8> {
        self.request.clear();
        &mut self.request
    }

    /// Sends the request, on the connection that there is, or on a new one.
    pub fn send(&mut self, epoll: &OwnedFd, number: usize, address: SocketAddr) -> Result<Progress, Errno> {
        self.sent = 0;
        self.answer.clear();
        if self.socket.is_none() {
            self.connect(epoll, number, address)?;
        }
        Ok(if self.connecting { Progress::Waiting } else { self.flush() })
    }

    /// Closes it.
    pub fn close(&mut self) {
        self.socket = None;
        self.connecting = false;
    }

    fn connect(&mut self, epoll: &OwnedFd, number: usize, address: SocketAddr) -> Result<(), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            // Connection refused: reported by the next event, as all connection errors.
            Err(Errno::CONNREFUSED) => {}
            Err(error) => return Err(error),
        }
        epoll::add(epoll, &socket, EventData::new_u64(number as u64), EVENTS)?;
        self.socket = Some(socket);
        self.connecting = true;
        self.kept = false;
        Ok(())
    }

    /// The connection broke.
    fn broken(&self) -> Progress {
        let reads = self.request.starts_with(b"GET ");
        if self.kept && reads && !self.answer.begun() {
            Progress::Closed
        } else {
            Progress::Failed(Fault::CutOff)
        }
    }

    /// Processes an event.
    pub fn happened(&mut self, flags: EventFlags, buffer: &mut [u8]) -> Progress {
        let Some(socket) = &self.socket else { return Progress::Waiting };
        if self.connecting {
            match net::sockopt::socket_error(socket) {
                Ok(Ok(())) if flags.contains(EventFlags::OUT) => self.connecting = false,
                Ok(Ok(())) if !flags.intersects(EventFlags::ERR | EventFlags::HUP) => {
                    return Progress::Waiting
                }
                _ => return Progress::Failed(Fault::Connect),
            }
        }
        if self.sent < self.request.len() {
            match self.flush() {
                Progress::Waiting => {}
                other => return other,
            }
        }
        let over = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if !flags.intersects(EventFlags::IN | over) {
            return Progress::Waiting;
        }
        let progress = self.receive(buffer);
        // Closed together with the answer: no later event reports this, and while Apache lingers it accepts the
        // next request without answering.
        if progress == Progress::Complete && flags.intersects(over) {
            self.close();
        }
        progress
    }

    fn flush(&mut self) -> Progress {
        let Some(socket) = &self.socket else { return Progress::Failed(Fault::CutOff) };
        while self.sent < self.request.len() {
            match net::send(socket, &self.request[self.sent..], SendFlags::NOSIGNAL) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return self.broken(),
            }
        }
        Progress::Waiting
    }

    /// Edge-triggered: read until the socket is empty. A short read has emptied it.
    fn receive(&mut self, buffer: &mut [u8]) -> Progress {
        loop {
            let Some(socket) = &self.socket else { return Progress::Failed(Fault::CutOff) };
            match net::recv(socket, &mut *buffer, RecvFlags::empty()) {
                Ok((_, 0)) => {
                    let progress = if self.answer.ended() { Progress::Complete } else { self.broken() };
                    self.close();
                    return progress;
                }
                Ok((_, bytes)) => match self.answer.take(&buffer[..bytes]) {
                    Ok(true) => {
                        if self.answer.closes() {
                            self.close();
                        }
                        self.kept = true;
                        return Progress::Complete;
                    }
                    Ok(false) if bytes < buffer.len() => return Progress::Waiting,
                    Ok(false) => {}
                    Err(_) => return Progress::Failed(Fault::BadAnswer),
                },
                Err(Errno::AGAIN) => return Progress::Waiting,
                Err(Errno::INTR) => {}
                Err(_) => return self.broken(),
            }
        }
    }
}
