-- Statements that are cancelled in the middle of each node leave nothing behind: no pins, no files, and the next statement
-- is right. The log is searched for leaks by test/run. expected/ is a stock server's output.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS pg_buffercache SCHEMA public;
CREATE SCHEMA hazard_cancel;
SET search_path = hazard_cancel, public;
CREATE TABLE h (id int, k int, v numeric(12,2), t text);
INSERT INTO h SELECT i, i % 1000, i / 4.0, 't' || i % 100 FROM generate_series(1, 200000) i;
ANALYZE h;
CREATE VIEW pinned AS SELECT count(*) FROM pg_buffercache
  WHERE relfilenode = pg_relation_filenode('hazard_cancel.h') AND pinning_backends > 0;
SET ccopt.force = on;
SET ccopt.buffer = force;
SET max_parallel_workers_per_gather = 0;
SET work_mem = '64MB';

-- far more work than the time allows, in each node
SET statement_timeout = 40;
SELECT count(*) FROM h a, h b, h c WHERE a.v > b.v;
SELECT count(*), sum(a.v * b.v) FROM h a JOIN h b ON a.k = b.k JOIN h c ON c.k = b.k;
SELECT a.t, count(*), sum(b.v) FROM h a JOIN h b ON a.k = b.k GROUP BY a.t ORDER BY a.t;
SELECT count(*) FROM h a LEFT JOIN h b ON a.t = b.t AND a.v < b.v;
SELECT count(*) FROM h a WHERE NOT EXISTS (SELECT 1 FROM h b WHERE b.t = a.t AND b.v > a.v + 100000);
SELECT id, (SELECT count(*) FROM h b WHERE b.k = a.k) FROM h a ORDER BY id DESC LIMIT 1;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT count(*) FROM h a JOIN h b ON a.id = b.id + 1;
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT sum(a.v) FROM h a CROSS JOIN generate_series(1, 1000) g WHERE a.v * g > 3;
RESET statement_timeout;
SELECT * FROM pinned;
SELECT count(*), sum(v), count(DISTINCT t) FROM h;

-- spilled to files when cancelled
SET work_mem = '64kB';
SET statement_timeout = 150;
SELECT count(*) FROM (SELECT a.id, count(*) AS n FROM h a JOIN h b ON a.k = b.k GROUP BY a.id) s;
SELECT count(*) FROM h a JOIN h b ON a.t = b.t JOIN h c ON c.t = a.t;
RESET statement_timeout;
SELECT count(*) FROM pg_ls_tmpdir();
SELECT * FROM pinned;
SET temp_file_limit = '64kB';
DO $$
BEGIN
  PERFORM count(*) FROM (SELECT a.id, a.t, count(*) FROM h a JOIN h b ON a.id = b.id GROUP BY a.id, a.t) s;
EXCEPTION WHEN configuration_limit_exceeded THEN NULL;
END $$;
RESET temp_file_limit;
RESET work_mem;
SELECT count(*) FROM pg_ls_tmpdir();
SELECT * FROM pinned;

-- an error in the middle of a batch, caught, many times
CREATE FUNCTION fails_at(int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM count(*), sum(100 / (id - $1)) FROM h WHERE v > 0;
  RETURN 'passed';
EXCEPTION WHEN division_by_zero THEN RETURN 'failed';
END $$;
SELECT fails_at(i * 777), count(*) FROM generate_series(1, 20) i GROUP BY 1;
CREATE FUNCTION fails_in_join(int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  PERFORM a.k, sum(100 / (b.id - $1)) FROM h a JOIN h b ON a.id = b.id WHERE a.id < 20000 GROUP BY a.k;
  RETURN 'passed';
EXCEPTION WHEN division_by_zero THEN RETURN 'failed';
END $$;
SELECT fails_in_join(i * 3000), count(*) FROM generate_series(1, 10) i GROUP BY 1 ORDER BY 1;
SELECT * FROM pinned;
BEGIN;
DECLARE c NO SCROLL CURSOR FOR SELECT a.id, b.t FROM h a JOIN h b ON a.id = b.id;
MOVE 5000 FROM c;
SAVEPOINT s;
SELECT sum(100 / (id - 50000)) FROM h;
ROLLBACK TO s;
MOVE 5000 FROM c;
CLOSE c;
DECLARE d NO SCROLL CURSOR FOR SELECT id FROM h WHERE v > 10;
MOVE 5000 FROM d;
ROLLBACK;
SELECT * FROM pinned;

-- from outside
CREATE EXTENSION IF NOT EXISTS dblink SCHEMA public;
SELECT dblink_connect('other', 'host=' || split_part(current_setting('unix_socket_directories'), ',', 1) || ' dbname=' ||
  current_database() || ' user=' || current_user || ' port=' || current_setting('port') ||
  ' options=''-c search_path=hazard_cancel -c ccopt.force=on -c ccopt.buffer=force''');
SELECT dblink_send_query('other', 'SELECT a.t, count(*), sum(b.v) FROM h a JOIN h b ON a.t = b.t GROUP BY a.t');
DO $$
BEGIN
  FOR i IN 1..10000 LOOP -- until it has begun, or there is nothing to cancel
    EXIT WHEN EXISTS (SELECT FROM pg_locks WHERE relation = 'h'::regclass AND pid <> pg_backend_pid());
    PERFORM pg_sleep(0.01);
  END LOOP;
END $$;
SELECT pg_sleep(0.1);
SELECT dblink_cancel_query('other');
SELECT * FROM dblink_get_result('other', false) AS t(t text, n bigint, s numeric);
SELECT * FROM dblink_get_result('other', false) AS t(t text, n bigint, s numeric);
SELECT * FROM dblink('other', 'SELECT count(*) FROM h WHERE v > 10') AS t(n bigint);
SELECT dblink_disconnect('other');
SELECT * FROM pinned;
DROP SCHEMA hazard_cancel CASCADE;
