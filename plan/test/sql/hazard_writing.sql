-- Statements that write or lock: each row is locked, checked again if another session changed it, and changed once.
-- expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
CREATE SCHEMA hazard_writing;
SET search_path = hazard_writing, public;
CREATE TABLE h (id int, k int, v numeric(10,2));
INSERT INTO h SELECT i, i % 5, i FROM generate_series(1, 3000) i;
CREATE TABLE u (k int, name text, n numeric(10,2));
INSERT INTO u SELECT i, 'name ' || i, i FROM generate_series(0, 4) i;
ANALYZE h, u;
SET ccopt.force = on;
SET ccopt.buffer = force;

SELECT id FROM h WHERE v < 3 ORDER BY id FOR UPDATE;
SELECT h.id, u.name FROM h JOIN u USING (k) WHERE h.v < 4 ORDER BY 1 FOR UPDATE OF h;
SELECT count(*) FROM (SELECT id FROM h WHERE v < 100 FOR SHARE) s;
SELECT id FROM h WHERE v < 100 ORDER BY id LIMIT 2 FOR NO KEY UPDATE SKIP LOCKED;
UPDATE h SET v = v + 1 WHERE v < 3 RETURNING id, v;
UPDATE h SET v = h.v + u.n FROM u WHERE u.k = h.k AND h.id <= 5 RETURNING h.id, h.v;
UPDATE h SET v = (SELECT sum(b.v) FROM h b WHERE b.k = h.k) WHERE id = 7 RETURNING v;
DELETE FROM h USING u WHERE u.k = h.k AND u.name = 'name 2' AND h.id > 2900;
DELETE FROM h WHERE id IN (SELECT id FROM h WHERE v > 2990) RETURNING id;
-- the Halloween problem: rows inserted or moved by a statement are not seen by it
INSERT INTO h SELECT id + 10000, k, v FROM h;
SELECT count(*), sum(v) FROM h;
UPDATE h SET v = v + 1 WHERE v >= 0;
SELECT count(*), sum(v) FROM h;
MERGE INTO u USING (SELECT k, sum(v) AS s FROM h WHERE id < 100 GROUP BY k) s ON s.k = u.k
  WHEN MATCHED AND u.k < 3 THEN UPDATE SET n = s.s
  WHEN MATCHED THEN DELETE
  WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'new', s.s);
SELECT * FROM u ORDER BY k;
WITH w AS (UPDATE h SET v = 0 WHERE id < 10 RETURNING id, v), d AS (DELETE FROM h WHERE id > 12000 RETURNING v)
  SELECT (SELECT count(*) FROM w), (SELECT count(*) FROM d), (SELECT count(*) FROM h), (SELECT sum(v) FROM h WHERE id < 10);
WITH w AS (INSERT INTO u SELECT k + 10, 'with', sum(v) FROM h GROUP BY k RETURNING k) SELECT count(*) FROM w, h WHERE h.k = w.k - 10;
INSERT INTO u SELECT DISTINCT k + 20, 'agg', max(v) FROM h GROUP BY k ON CONFLICT DO NOTHING;
SELECT count(*) FROM u;
CREATE TABLE made AS SELECT k, count(*) AS n, sum(v) AS s FROM h GROUP BY k;
SELECT k, n FROM made ORDER BY k;
SELECT k, avg(v) AS a INTO made2 FROM h GROUP BY k;
SELECT count(*) FROM made2;
COPY (SELECT k, count(*), sum(v) FROM h WHERE v > 100 GROUP BY k ORDER BY k) TO STDOUT;

-- within a transaction: own changes, command by command
BEGIN;
DELETE FROM h WHERE id > 5;
SELECT count(*) FROM h;
INSERT INTO h VALUES (6, 1, 1);
SELECT count(*), sum(v) FROM h;
SAVEPOINT a;
UPDATE h SET v = 100;
SELECT count(*), sum(v) FROM h;
ROLLBACK TO a;
SELECT count(*), sum(v) FROM h;
TRUNCATE h;
SELECT count(*) FROM h;
INSERT INTO h VALUES (1, 1, 1);
ALTER TABLE h ADD COLUMN extra numeric(5,2) DEFAULT 1.25;
SELECT sum(v), sum(extra) FROM h;
ALTER TABLE h ALTER COLUMN v TYPE numeric(20,4);
SELECT sum(v), sum(extra) FROM h;
ROLLBACK;
SELECT count(*) FROM h;

-- another session changes the row first: its new version is checked again
SELECT dblink_connect('other', 'host=' || split_part(current_setting('unix_socket_directories'), ',', 1) || ' dbname=' ||
  current_database() || ' user=' || current_user || ' port=' || current_setting('port') ||
  ' options=''-c search_path=hazard_writing -c ccopt.force=on -c ccopt.buffer=force''');
-- waits until the statement blocks on a locked row or has ended, however slow the machine is
CREATE PROCEDURE other_waits() LANGUAGE plpgsql AS $$
BEGIN
  FOR i IN 1..10000 LOOP
    EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE NOT granted) OR dblink_is_busy('other') = 0;
    PERFORM pg_sleep(0.01);
  END LOOP;
END $$;
BEGIN;
UPDATE h SET v = 1000000 WHERE id = 100;
UPDATE h SET k = 77 WHERE id = 101;
SELECT dblink_send_query('other', 'SELECT h.id, h.k FROM h JOIN u ON u.k = h.k WHERE h.v < 5000 AND h.id BETWEEN 98 AND 103 ORDER BY h.id FOR UPDATE OF h');
CALL other_waits();
COMMIT;
SELECT * FROM dblink_get_result('other') AS t(id int, k int);
SELECT * FROM dblink_get_result('other') AS t(id int, k int);
BEGIN;
UPDATE h SET v = 1 WHERE id = 100;
SELECT dblink_send_query('other', 'UPDATE h SET v = h.v + 5 FROM (SELECT k, count(*) AS n FROM h GROUP BY k) s WHERE s.k = h.k AND h.id = 100 AND h.v < 10 RETURNING h.id, h.v');
CALL other_waits();
COMMIT;
SELECT * FROM dblink_get_result('other') AS t(id int, v numeric);
SELECT * FROM dblink_get_result('other') AS t(id int, v numeric);
-- serializable: of two transactions that read what the other writes one must fail, so a scan takes its predicate
-- lock
CREATE TABLE doctors (name text, on_call int);
INSERT INTO doctors SELECT 'd' || i, 1 FROM generate_series(1, 2) i;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT sum(on_call) FROM doctors WHERE on_call = 1;
SELECT dblink_exec('other', 'BEGIN ISOLATION LEVEL SERIALIZABLE');
SELECT * FROM dblink('other', 'SELECT sum(on_call) FROM doctors WHERE on_call = 1') AS t(n bigint);
SELECT dblink_exec('other', 'UPDATE doctors SET on_call = 0 WHERE name = ''d1''');
SELECT dblink_exec('other', 'COMMIT');
UPDATE doctors SET on_call = 0 WHERE name = 'd2';
COMMIT;
SELECT sum(on_call) FROM doctors;
-- repeatable read: the snapshot stays
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*), sum(v) FROM h WHERE id < 200;
SELECT dblink_exec('other', 'UPDATE h SET v = v + 1 WHERE id < 200');
SELECT dblink_exec('other', 'DELETE FROM h WHERE id < 50');
SELECT dblink_exec('other', 'VACUUM h');
SELECT count(*), sum(v) FROM h WHERE id < 200;
UPDATE h SET v = 0 WHERE id = 60;
ROLLBACK;
SELECT count(*), sum(v) FROM h WHERE id < 200;
SELECT dblink_disconnect('other');
-- triggers with transition tables, foreign keys that are checked and validated
CREATE TABLE log (op text, n bigint, s numeric);
CREATE FUNCTION keep_log() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO log SELECT tg_op, count(*), sum(v) FROM changed; RETURN NULL; END $$;
CREATE TRIGGER t AFTER UPDATE ON h REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION keep_log();
UPDATE h SET v = v WHERE id BETWEEN 1000 AND 1100;
SELECT * FROM log;
DELETE FROM u WHERE k > 4;
INSERT INTO u SELECT i, 'fk', 0 FROM generate_series(0, 100) i WHERE i NOT IN (SELECT k FROM u);
CREATE UNIQUE INDEX ON u (k);
ALTER TABLE h ADD FOREIGN KEY (k) REFERENCES u (k);
INSERT INTO h VALUES (1, 1000, 1);
DELETE FROM u WHERE k = 1;
UPDATE h SET k = 99 WHERE id = 1001;
DELETE FROM u WHERE k = 98;
ALTER TABLE h DROP CONSTRAINT h_k_fkey;
UPDATE h SET k = 1000 WHERE id = 1001;
ALTER TABLE h ADD FOREIGN KEY (k) REFERENCES u (k);
DROP SCHEMA hazard_writing CASCADE;
