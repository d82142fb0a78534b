-- Parallel plans beside, below and above ccopt's nodes; workers find the names of these nodes. expected/ is what a
-- stock server says.
SET client_min_messages = warning;
CREATE SCHEMA hazard_parallel;
SET search_path = hazard_parallel;
CREATE TABLE h (id int, k int, v numeric(10,2), t text);
INSERT INTO h SELECT i, i % 50, i / 4.0, 't' || i % 7 FROM generate_series(1, 30000) i;
CREATE TABLE u (k int, name text);
INSERT INTO u SELECT i, 'name ' || i FROM generate_series(0, 49) i;
ANALYZE h, u;
CREATE FUNCTION parallel_mode(text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM set_config(CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'debug_parallel_query' ELSE 'force_parallel_mode' END, $1, false);
END $$;
CREATE FUNCTION ask() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
  RETURN NEXT (SELECT format('%s %s %s', count(*), sum(v), max(t)) FROM h WHERE v > 10);
  RETURN QUERY SELECT format('%s %s %s', t, count(*), sum(v)) FROM h GROUP BY t ORDER BY t;
  RETURN QUERY SELECT format('%s %s', u.name, sum(h.v)) FROM h JOIN u USING (k) WHERE u.k < 4 GROUP BY u.name ORDER BY u.name;
  RETURN NEXT (SELECT format('%s %s', count(*), count(u.name)) FROM h LEFT JOIN u ON u.k = h.id);
  RETURN NEXT (SELECT format('%s', count(*)) FROM h WHERE EXISTS (SELECT 1 FROM u WHERE u.k = h.k AND u.name LIKE '%1%'));
  RETURN NEXT (SELECT format('%s', count(*)) FROM h WHERE v > (SELECT avg(v) FROM h b WHERE b.t = 't3'));
  RETURN QUERY SELECT format('%s', id) FROM h ORDER BY v DESC LIMIT 2;
  RETURN NEXT (SELECT format('%s', sum(n)) FROM (SELECT k, count(*) AS n FROM h WHERE v < 5000 GROUP BY k UNION ALL SELECT k, 1 FROM u) s);
  RETURN NEXT (SELECT format('%s', count(*)) FROM (SELECT h.id FROM h, u WHERE h.k = u.k OFFSET 0) s WHERE id % 2 = 0);
END $$;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT * FROM ask();
SET ccopt.force = on;
SET ccopt.buffer = force;
SELECT * FROM ask();
SELECT parallel_mode('on');
SELECT * FROM ask();
SELECT parallel_mode('regress');
SELECT * FROM ask();
SET ccopt.force = off;
SELECT * FROM ask();
SELECT parallel_mode('off');
SET parallel_leader_participation = off;
SELECT * FROM ask();
SET ccopt.buffer = paper;
SELECT * FROM ask();
-- parallel workers do not get what the leader's session set after it planned
SET ccopt.enabled = off;
SELECT * FROM ask();
DROP SCHEMA hazard_parallel CASCADE;
