//! The servers that hold the data: a single one, or a head and its data nodes.

use super::schema::server_name;
use super::session::Session;
use super::target::Target;
use crate::error::TpccError;
use crate::schema::Table;
use hardmeter_session::Stop;

/// The servers, by number: 0 is the head, to which clients connect.
pub(super) struct Sites {
    targets: Vec<Target>,
}

impl Sites {
    /// The head and this many data nodes.
    pub(super) fn of(target: &Target, head: &mut Session, servers: u32) -> Result<Sites, TpccError> {
        let others = if servers == 0 { vec![] } else { servers_of(head, servers)? };
        Ok(Sites { targets: std::iter::once(target.clone()).chain(others).collect() })
    }

    /// All of them.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = usize> {
        0..self.targets.len()
    }

    /// The servers that hold warehouses.
    pub(super) fn data(&self) -> impl Iterator<Item = usize> {
        if self.targets.len() == 1 {
            0..1
        } else {
            1..self.targets.len()
        }
    }

    /// The tables that a server has rows of.
    pub(super) fn tables(&self, site: usize) -> impl Iterator<Item = Table> {
        let alone = self.targets.len() == 1;
        Table::ALL.into_iter().filter(move |table| alone || (*table == Table::Item) == (site == 0))
    }

    /// A server's description.
    pub(super) fn description(&self, site: usize) -> &str {
        self.targets[site].description()
    }

    /// Sessions to them, opened on demand.
    pub(super) fn sessions(&self, stop: &Stop) -> Sessions<'_> {
        let open = self.targets.iter().map(|_| None).collect();
        Sessions { sites: self, open, stop: stop.clone() }
    }

    /// The server of a part: 0, ITEM, is on the head; warehouse w in part w mod N.
    fn of_part(&self, part: u32) -> usize {
        match (self.targets.len() as u32 - 1, part) {
            (0, _) | (_, 0) => 0,
            (servers, warehouse) => (warehouse % servers) as usize + 1,
        }
    }
}

/// Sessions to the servers used so far.
pub(super) struct Sessions<'a> {
    sites: &'a Sites,
    open: Vec<Option<Session>>,
    stop: Stop,
}

impl Sessions<'_> {
    /// The session to a server.
    pub(super) fn at(&mut self, site: usize) -> Result<&mut Session, TpccError> {
        match &mut self.open[site] {
            Some(session) => Ok(session),
            empty => Ok(empty.insert(Session::open(&self.sites.targets[site], &self.stop)?)),
        }
    }

    /// The session to where a part is.
    pub(super) fn of_part(&mut self, part: u32) -> Result<&mut Session, TpccError> {
        self.at(self.sites.of_part(part))
    }
}

/// The data nodes in the head's table `mysql.servers`.
pub(super) fn servers_of(head: &mut Session, servers: u32) -> Result<Vec<Target>, TpccError> {
    (1..=servers).map(|number| server(head, number)).collect()
}

fn server(head: &mut Session, number: u32) -> Result<Target, TpccError> {
    let name = server_name(number);
    let sql = format!(
        "SELECT Host, Port, Socket, Username, Password, Db FROM mysql.servers WHERE Server_name = '{name}'"
    );
    let rows = head.rows("asking for the servers of the head", &sql)?;
    let Some(row) = rows.into_iter().next() else {
        return Err(TpccError::NotInMariadb {
            what: "a load over several servers".into(),
            reason: format!("the head names no server {name}"),
            remedy: format!(
                "say where it is: CREATE SERVER {name} FOREIGN DATA WRAPPER mysql OPTIONS (HOST '...', PORT 3306, \
                 DATABASE 'tpcc', USER '...', PASSWORD '...')"
            ),
        });
    };
    let column = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
    let port = column(1).parse().unwrap_or(0);
    Ok(Target::foreign(column(0), port, column(2), column(3), column(4), column(5)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn sites(servers: usize) -> Sites {
        Sites { targets: vec![Target::socket(Path::new("/s"), "root", "tpcc"); servers + 1] }
    }

    #[test]
    fn warehouses_go_round_the_servers_as_the_hash_says() {
        let alone = sites(0);
        assert_eq!((alone.of_part(0), alone.of_part(7)), (0, 0));
        assert_eq!(alone.tables(0).count(), 9);
        assert_eq!(alone.data().collect::<Vec<_>>(), [0]);
        let three = sites(3);
        // MariaDB's partition of HASH(w) is w mod 3, and the first partition is on the first server.
        assert_eq!([0, 1, 2, 3, 4].map(|part| three.of_part(part)), [0, 2, 3, 1, 2]);
        assert_eq!(three.tables(0).collect::<Vec<_>>(), [Table::Item]);
        assert_eq!((three.tables(2).count(), three.data().count()), (8, 3));
    }
}
