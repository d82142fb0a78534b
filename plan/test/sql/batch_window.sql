-- Window functions by BatchWindow: it sorts the rows and computes the functions of all windows of one order.
set client_min_messages = warning;
create schema batch_window;
set search_path = batch_window;
set max_parallel_workers_per_gather = 0;
set ccopt.force = on;
create table sales (id int, region text, day date, amount numeric(8,2), n int);
insert into sales values
  (1, 'north', '2026-01-01', 10.00, 1), (2, 'north', '2026-01-02', 2.50, 2), (3, 'north', '2026-01-02', 5.00, 3),
  (4, 'south', '2026-01-01', 1.00, 4), (5, 'south', '2026-01-05', null, 5), (6, null, '2026-01-03', 7.00, null);
analyze sales;

explain (costs off)
select id, row_number() over (partition by region order by day desc), sum(n) over (partition by region) from sales;
-- Ranks: rows 2 and 3 are peers.
select id, region, day, row_number() over w as number, rank() over w, dense_rank() over w as dense,
       percent_rank() over w as percent, cume_dist() over w as cume, ntile(2) over w
  from sales window w as (partition by region order by day) order by region, id;
-- A frame ends with the peers, with the row, or with the partition.
select id, sum(amount) over (order by day) as peers, sum(amount) over (order by day, id rows unbounded preceding) as rows,
       sum(amount) over () as all, count(amount) over (order by day) as values, avg(n) over (order by day) as mean,
       min(amount) over (order by day, id) as least, max(day) over (order by id rows unbounded preceding) as last
  from sales order by day, id;
-- LAG and LEAD, and values of the frame.
select id, lag(id) over w, lead(id, 2, -1) over w, lag(id, null) over w as none, lag(id, -1) over w as next,
       first_value(id) over w as first, last_value(id) over w as last, nth_value(id, 2) over w as second
  from sales window w as (partition by region order by day) order by region, id;
-- The order of NULLs, and descending.
select id, row_number() over (order by region nulls first, id desc) as first,
       row_number() over (order by region desc nulls last, id) as last from sales order by id;
-- No rows; one row.
select row_number() over (order by id), sum(n) over () from sales where id > 100;
select row_number() over (order by id), lag(n) over (order by id), percent_rank() over (order by id) from sales where id = 1;

-- A condition on a rank ends the partition, or the whole node.
explain (costs off)
select * from (select id, region, rank() over (partition by region order by day desc) as r from sales) as ranked where r <= 1;
select * from (select id, region, rank() over (partition by region order by day desc) as r from sales) as ranked
  where r <= 1 order by region, id;
select * from (select id, row_number() over (order by id desc) as r from sales) as ranked where r < 3;
-- The lower window's condition makes its function NULL; the upper one sees all rows.
select * from (select id, rank() over (order by day, id) as r, count(*) over (partition by region) as c from sales) as ranked
  where r <= 2 order by id;

-- Cases left to core, and why.
select public.plan_lines('select sum(n) over (order by id rows between 1 preceding and current row) from sales');
select public.plan_lines('select sum(n) over (order by id rows between unbounded preceding and 1 following) from sales');
select public.plan_lines('select sum(n) over (order by id rows between unbounded preceding and current row exclude ties) from sales');
select public.plan_lines('select sum(n) filter (where n > 1) over (order by id) from sales');
select public.plan_lines('select sum(n + 1) over (order by id) from sales');
select public.plan_lines('select string_agg(region, '','') over (order by id) from sales');
select public.plan_lines('select lag(id, n) over (order by id) from sales');
select public.plan_lines('select sum(amount * 1.5) over (order by id), row_number() over (order by amount * 1.5) from sales');
select public.plan_lines('select row_number() over (order by amount::numeric) from sales');
select public.plan_lines('select row_number() over (order by array[id]) from sales');
select public.plan_lines('select row_number() over (order by random()) from sales');
select public.plan_lines('select generate_series(1, row_number() over (order by id)) from sales');
set ccopt.enable_batch_window = off;
select public.plan_lines('select row_number() over (order by id) from sales');
reset ccopt.enable_batch_window;
set ccopt.force = off;
set work_mem = '64kB';
select public.plan_lines('select id, row_number() over (order by id desc) from generate_series(1, 10000) as id');
reset work_mem;
set ccopt.force = on;

-- The same rows in the same order as core's plan, also of peers.
create table kinds (id int, i int, s smallint, b bigint, n numeric(10,2), f float8, g float4, d date, ts timestamp, t text,
                    p char(4), v varchar(8), o oid, c "char", y bool);
insert into kinds select i, nullif(i % 7, 3), i % 3 - 1, nullif(i * 7919 % 1000, 5) * 9000000000000, i * 31 % 997 / 4.0 - 100,
    case i % 13 when 0 then null when 1 then 'NaN' when 2 then '-0' when 3 then 'infinity' else i % 29 / 7.0 end, i % 5 / 3.0,
    case when i % 17 = 0 then null when i % 101 = 0 then 'infinity' else date '2020-01-01' + i % 50 end,
    timestamp '2020-01-01' + i % 300 * interval '1 hour', case when i % 19 > 0 then md5((i % 37)::text) end,
    repeat('x', i % 4), 'v' || i % 6, i % 9 * 500000000::bigint, chr(65 + i % 3)::"char", i % 2 = 0
  from generate_series(1, 3000) i order by md5(i::text);
analyze kinds;
create function compare(query text) returns text language plpgsql as $$
declare ours text[]; core text[];
begin
  perform set_config('ccopt.require', 'BatchWindow', true);
  execute format('select array_agg(q::text) from (%s) q', query) into ours;
  perform set_config('ccopt.require', '', true), set_config('ccopt.enabled', 'off', true);
  execute format('select array_agg(q::text) from (%s) q', query) into core;
  perform set_config('ccopt.enabled', 'on', true);
  return case when ours is not distinct from core then 'same ' else 'DIFFERENT ' end || coalesce(cardinality(core), 0);
end $$;
select compare(format('select *, %s from kinds window w as (%s)', functions, frame)), count(*) from
  (values ('row_number() over w, rank() over w, dense_rank() over w, percent_rank() over w, cume_dist() over w, ntile(7) over w'),
          ('sum(i) over w, avg(i) over w, sum(s) over w, avg(s) over w, sum(b) over w, avg(b) over w'),
          ('sum(n) over w, avg(n) over w, sum(f) over w, avg(f) over w, count(*) over w, count(t) over w'),
          ('min(i) over w, max(s) over w, min(b) over w, max(n) over w, min(d) over w, max(ts) over w'),
          ('lag(t) over w, lead(n, 3) over w, lag(p, 2, ''none''::char(4)) over w, lead(f, 0) over w'),
          ('first_value(v) over w, last_value(t) over w, nth_value(c, 3) over w, last_value(y) over w')) as f(functions),
  (values ('order by i, s desc nulls first'), ('partition by t order by f'), ('partition by p, c'), (''),
          ('partition by y order by n desc nulls last, g rows unbounded preceding'),
          ('partition by v order by ts, o groups between unbounded preceding and current row'),
          ('partition by d order by b range between unbounded preceding and unbounded following')) as w(frame)
  group by 1;
-- Several orders, HAVING below, a window over groups, DISTINCT and ORDER BY above.
select compare('select rank() over (order by i), rank() over (order by s, id), sum(s) over (partition by i) from kinds');
select compare('select i, sum(s), rank() over (order by sum(s)), sum(count(*)) over () from kinds group by i having count(*) > 1 order by i');
select compare('select distinct i, max(n) over (partition by i) from kinds order by 1');
select compare('select * from (select id, rank() over (partition by i order by b) r, row_number() over (order by id) q from kinds) s where r <= 2 and q < 500');

-- More rows than work_mem, or a number that does not fit: core's nodes get the rows.
set work_mem = '64kB';
select compare('select id, t, sum(n) over (partition by i order by id), count(*) over (partition by i) from kinds');
select compare('select * from (select id, row_number() over (partition by i order by id) as r from kinds) s where r <= 3');
reset work_mem;
update kinds set n = 'NaN' where id = 1500;
select compare('select id, sum(n) over (partition by i order by id), max(n) over (partition by s) from kinds');
create function left_because(query text) returns setof text language plpgsql as $$
declare line text;
begin
  for line in execute 'explain (analyze, costs off, timing off, summary off) ' || query loop
    if line ~ 'Left to|Sort Method' then return next trim(line); end if;
  end loop;
end $$;
select left_because('select sum(n) over (partition by i order by id) from kinds');
set work_mem = '64kB';
select left_because('select sum(s) over (partition by i order by id) from kinds');
reset work_mem;
select left_because('select sum(s) over (partition by i order by id) from kinds');
select left_because('select sum(s) over (partition by i) from kinds');

-- Error messages are core's.
insert into kinds (id, f) values (-1, 1e308), (-2, 1e308);
select sum(f) over (order by id) from kinds where id < 0;
select avg(f) over (order by id) from kinds where id < 0;

-- Started again: with a parameter, and without.
select o.k, s.* from (values (1), (2)) as o(k),
  lateral (select id, row_number() over (order by id desc) as r from sales where id <= o.k + 1) as s order by 1, 2;
select o.k, (select max(r) from (select row_number() over (order by id) as r, id from sales) s where s.id <= o.k)
  from (values (1), (3), (6)) as o(k);
set work_mem = '64kB';
select o.k, (select max(r) from (select row_number() over (order by id) as r, id, t from kinds where id > 0) s where s.id <= o.k)
  from (values (1), (3), (3000)) as o(k);
reset work_mem;
drop schema batch_window cascade;
