//! Opens a connection: socket, authentication, settings, prepared statements. It blocks, with a time limit.

use super::answer::Answer;
use super::failure::{cannot_connect, connect, not_prepared, refused, MORE_FILES};
use super::refusal::Refusal;
use super::requests::{BEGIN, COMMIT, ROLLBACK};
use super::script::Scripts;
use super::socket::{connect_to, places, Place};
use crate::error::TpccError;
use crate::settings::Settings;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use hardmeter_session::Target;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{self as tag, Message};
use postgres_protocol::message::frontend;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// A connection that is ready for work, and nonblocking.
#[derive(Debug)]
pub(super) struct Opened {
    pub socket: OwnedFd,
    pub place: Place,
    /// Received bytes that are not processed yet.
    pub answer: Answer,
    /// The backend process, and the key to cancel its statement.
    pub process: i32,
    pub key: i32,
    /// server_version.
    pub version: String,
}

/// Opens a connection of a run. `patience`: time limit of the whole.
/// `target` has the `settings` of the user as options already.
pub(super) fn open(
    target: &Target,
    scripts: &dyn Scripts,
    settings: &Settings,
    patience: Duration,
) -> Result<Opened, TpccError> {
    let described = target.description();
    let deadline = Instant::now() + patience;
    let mut last = None;
    for place in places(target.config()).map_err(|reason| cannot_connect(described, reason))? {
        match connect_to(&place, target.config(), deadline) {
            Ok(socket) => return Opening::new(target, place, socket, deadline).finish(scripts, settings),
            Err(error) => last = Some(error),
        }
    }
    Err(match last {
        Some(error) if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => {
            connect(described, error.to_string(), MORE_FILES)
        }
        Some(error) => cannot_connect(described, error),
        None => cannot_connect(described, "no address is known"),
    })
}

/// A connection on its way.
struct Opening<'a> {
    target: &'a Target,
    deadline: Instant,
    opened: Opened,
}

impl<'a> Opening<'a> {
    fn new(target: &'a Target, place: Place, socket: OwnedFd, deadline: Instant) -> Opening<'a> {
        let answer = Answer::new();
        let opened = Opened { socket, place, answer, process: 0, key: 0, version: String::new() };
        Opening { target, deadline, opened }
    }

    fn finish(mut self, scripts: &dyn Scripts, settings: &Settings) -> Result<Opened, TpccError> {
        self.enter()?;
        self.prepare(scripts, settings)?;
        self.opened.answer.next();
        rustix::io::ioctl_fionbio(&self.opened.socket, true).map_err(|error| self.broken(error))?;
        Ok(self.opened)
    }

    /// From the first message to ReadyForQuery.
    fn enter(&mut self) -> Result<(), TpccError> {
        let config = self.target.config();
        let user = config.get_user().unwrap_or("postgres").to_owned();
        let mut parameters = vec![
            ("user", user.as_str()),
            ("database", self.target.database()),
            ("application_name", config.get_application_name().unwrap_or("hardmeter tpcc")),
            ("client_encoding", "UTF8"),
        ];
        parameters.extend(config.get_options().map(|options| ("options", options)));
        self.send(|buffer| frontend::startup_message(parameters, buffer))?;
        let mut scram = None;
        loop {
            match self.message()? {
                Message::AuthenticationOk | Message::NoticeResponse(_) => {}
                Message::AuthenticationCleartextPassword => {
                    let password = self.password()?;
                    self.send(|buffer| frontend::password_message(password, buffer))?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(user.as_bytes(), self.password()?, body.salt());
                    self.send(|buffer| frontend::password_message(hash.as_bytes(), buffer))?;
                }
                Message::AuthenticationSasl(body) => {
                    let known =
                        body.mechanisms().any(|one| Ok(one == sasl::SCRAM_SHA_256)).unwrap_or_default();
                    if !known {
                        return Err(self.unspoken("a SASL mechanism other than SCRAM-SHA-256"));
                    }
                    let exchange =
                        sasl::ScramSha256::new(self.password()?, sasl::ChannelBinding::unsupported());
                    self.send(|buffer| {
                        frontend::sasl_initial_response(sasl::SCRAM_SHA_256, exchange.message(), buffer)
                    })?;
                    scram = Some(exchange);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let Some(exchange) = &mut scram else { return Err(self.broken("SCRAM out of turn")) };
                    if iterations(body.data()) > MOST_ITERATIONS {
                        return Err(self.broken("it asks for more SCRAM iterations than a server would"));
                    }
                    exchange.update(body.data()).map_err(|error| self.broken(error))?;
                    self.send(|buffer| frontend::sasl_response(exchange.message(), buffer))?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    let Some(exchange) = &mut scram else { return Err(self.broken("SCRAM out of turn")) };
                    exchange.finish(body.data()).map_err(|error| self.broken(error))?;
                }
                Message::ParameterStatus(body) if body.name().ok() == Some("server_version") => {
                    self.opened.version = body.value().unwrap_or_default().to_owned();
                }
                Message::ParameterStatus(_) => {}
                Message::BackendKeyData(body) => {
                    (self.opened.process, self.opened.key) = (body.process_id(), body.secret_key());
                }
                Message::ReadyForQuery(_) => return Ok(()),
                Message::AuthenticationGss
                | Message::AuthenticationSspi
                | Message::AuthenticationKerberosV5
                | Message::AuthenticationScmCredential => {
                    return Err(self.unspoken("Kerberos, GSSAPI or SSPI"));
                }
                _ => return Err(self.broken("it answers out of turn")),
            }
        }
    }

    /// Settings and statements, in one round trip.
    fn prepare(&mut self, scripts: &dyn Scripts, chosen: &Settings) -> Result<(), TpccError> {
        let own = [(BEGIN, "BEGIN"), (COMMIT, "COMMIT"), (ROLLBACK, "ROLLBACK")];
        let statements = scripts.statements();
        self.send(|buffer| {
            // The tables are in public, where they were loaded, for any search path of the role.
            let settings = chosen.without_mine(scripts.settings());
            let settings = format!("SET search_path = public, pg_catalog; {settings}");
            frontend::query(&settings, buffer)?;
            for (name, sql) in own {
                frontend::parse(name, sql, [], buffer)?;
            }
            for (number, statement) in statements.iter().enumerate() {
                frontend::parse(
                    &number.to_string(),
                    &statement.sql,
                    statement.parameters.iter().copied(),
                    buffer,
                )?;
            }
            frontend::sync(buffer);
            Ok(())
        })?;
        let (mut ready, mut prepared) = (0, 0);
        while ready < 2 {
            // An error among statements is followed by a second ReadyForQuery, which is not awaited.
            match self.frame()? {
                (tag::PARSE_COMPLETE_TAG, _) => prepared += 1,
                (tag::READY_FOR_QUERY_TAG, _) => ready += 1,
                (tag::ERROR_RESPONSE_TAG, refusal) => {
                    let what = match (ready, prepared - own.len() as i64) {
                        (0, _) => "making the settings of a connection".to_owned(),
                        (_, number) => {
                            let sql = usize::try_from(number).ok().and_then(|number| statements.get(number));
                            let sql = sql.map_or("", |statement| statement.sql.trim());
                            let words: Vec<&str> = sql.split_whitespace().take(8).collect();
                            format!("preparing the statement \"{} ...\"", words.join(" "))
                        }
                    };
                    return Err(not_prepared(what, &refusal));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The next message, parsed; an ErrorResponse is returned as an error.
    fn message(&mut self) -> Result<Message, TpccError> {
        let range = self.next_frame()?;
        let bytes = self.opened.answer.bytes(range);
        if bytes[0] == tag::ERROR_RESPONSE_TAG {
            return Err(refused(self.target.description(), &Refusal::parse(&bytes[5..], 0)));
        }
        let mut bytes = BytesMut::from(bytes);
        match Message::parse(&mut bytes) {
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(self.broken("it sent half a message")),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// The next message's tag, and the refusal of an ErrorResponse.
    fn frame(&mut self) -> Result<(u8, Refusal), TpccError> {
        let range = self.next_frame()?;
        let bytes = self.opened.answer.bytes(range);
        let refusal = if bytes[0] == tag::ERROR_RESPONSE_TAG {
            Refusal::parse(&bytes[5..], 0)
        } else {
            Refusal::default()
        };
        Ok((bytes[0], refusal))
    }

    fn next_frame(&mut self) -> Result<std::ops::Range<usize>, TpccError> {
        loop {
            match self.opened.answer.take_message() {
                Ok(Some((_, range))) => return Ok(range),
                Ok(None) => {}
                Err(error) => return Err(self.broken(error)),
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.broken("it did not answer in time"));
            }
            // Never zero, which would mean no limit.
            let left = left.max(Duration::from_millis(1));
            rustix::net::sockopt::set_socket_timeout(
                &self.opened.socket,
                rustix::net::sockopt::Timeout::Recv,
                Some(left),
            )
            .map_err(|error| self.broken(error))?;
            match rustix::io::read(&self.opened.socket, self.opened.answer.space()) {
                Ok(0) => return Err(self.broken("the server closed the connection")),
                Ok(bytes) => self.opened.answer.came(bytes),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn send(&mut self, write: impl FnOnce(&mut BytesMut) -> std::io::Result<()>) -> Result<(), TpccError> {
        let mut buffer = BytesMut::new();
        write(&mut buffer).map_err(|error| self.broken(error))?;
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            match rustix::net::send(&self.opened.socket, rest, rustix::net::SendFlags::NOSIGNAL) {
                Ok(sent) => rest = &rest[sent..],
                Err(Errno::INTR) => {}
                // A server that refuses all clients sends the reason before it closes: prefer that message.
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(()),
                Err(error) => return Err(self.broken(error)),
            }
        }
        Ok(())
    }

    fn password(&self) -> Result<&'a [u8], TpccError> {
        self.target.config().get_password().ok_or_else(|| {
            let reason = "the server asks for a password, and none was given".to_owned();
            let remedy = "give it in PGPASSWORD or in ~/.pgpass";
            connect(self.target.description(), reason, remedy)
        })
    }

    fn unspoken(&self, what: &str) -> TpccError {
        let reason = format!("the server requires {what}, which hardmeter does not support");
        let remedy = "let this user in by a password (scram-sha-256, md5) or by peer or trust in pg_hba.conf";
        connect(self.target.description(), reason, remedy)
    }

    fn broken(&self, reason: impl ToString) -> TpccError {
        cannot_connect(self.target.description(), reason)
    }
}

/// PostgreSQL's default is 4,096. A few million take a second.
const MOST_ITERATIONS: u64 = 1_000_000;

/// The `i=` of SCRAM's first server message; 0 if there is none.
fn iterations(message: &[u8]) -> u64 {
    let text = std::str::from_utf8(message).unwrap_or_default();
    let value = text.split(',').find_map(|attribute| attribute.strip_prefix("i="));
    value.map_or(0, |value| value.parse().unwrap_or(u64::MAX))
}
