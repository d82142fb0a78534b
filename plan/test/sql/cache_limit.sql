-- The column cache has 4 MB here. A table that needs more keeps a part, and pushes nothing out that is in use; what was not
-- used for long is pushed out.
set client_min_messages = warning;
create schema cache_limit;
set search_path = cache_limit;
set ccopt.force = on;
set ccopt.enable_cache = on;
set max_parallel_workers_per_gather = 0;

create function hits(query text) returns bigint language plpgsql as $$
declare
  before bigint := sum(cache_hits) from ccopt.ccopt_stats;
begin
  execute query;
  return (select sum(cache_hits) - before from ccopt.ccopt_stats);
end $$;

create table small (k int not null, filler char(80) not null);
insert into small select i, '' from generate_series(1, 5000) i;
-- Eight columns of bigint: the columns of a page take 64 bytes a row in the cache, so some 4.5 MB in all.
create table large (a int8, b int8, c int8, d int8, e int8, f int8, g int8, h int8);
insert into large select i, i, i, i, i, i, i, i from generate_series(1, 70000) i;
vacuum small, large;

select sum(k) from small;
select sum(k) from small;
create temporary table before as select * from ccopt.ccopt_cache;
do $$
begin
  for i in 1 .. 5 loop
    perform count(*), sum(a + b + c + d), sum(e + f + g + h) from large;
  end loop;
end $$;
select sum(a + b + c + d), sum(e + f + g + h) from large;
select c.used_bytes <= c.limit_bytes as within, c.limit_bytes = 4 * 1024 * 1024 as four,
       c.refused_fills > b.refused_fills as refused, c.pinned_segments
from ccopt.ccopt_cache c, before b;
-- The small table is where it was, and so is the beginning of the large one, at each scan.
select hits('select sum(k) from small') = relpages / 16 * 16 as whole from pg_class where oid = 'small'::regclass;
create temporary table kept as select hits('select count(*), sum(a + b + c + d), sum(e + f + g + h) from large') as hits;
select hits > 0 as some, hits < relpages / 16 * 16 * 8 as not_all from kept, pg_class where oid = 'large'::regclass;
select hits('select count(*), sum(a + b + c + d), sum(e + f + g + h) from large') = hits as stays from kept;

-- Not used for 1,000 scans of another table, the large one makes room for a third.
create table third as select * from large where a <= 30000;
vacuum third;
do $$ begin for i in 1 .. 1200 loop perform sum(k) from small; end loop; end $$;
do $$ begin for i in 1 .. 3 loop perform sum(a + b + c) from third; end loop; end $$;
select hits('select sum(a + b + c) from third'), relpages / 16 * 16 * 3 as whole from pg_class where oid = 'third'::regclass;
select hits('select sum(k) from small') = relpages / 16 * 16 as whole from pg_class where oid = 'small'::regclass;
select c.evicted_chunks > b.evicted_chunks as evicted, c.used_bytes <= c.limit_bytes as within, c.pinned_segments
from ccopt.ccopt_cache c, before b;
select sum(a + b + c + d), sum(e + f + g + h) from large;
drop schema cache_limit cascade;
