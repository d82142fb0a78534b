-- A join that was small eight times (costs less than 50) is planned by core alone, until it is large for once.
set max_parallel_workers_per_gather = 0;
create table small_a (id int primary key, v int not null, filler text not null);
create table small_b (id int primary key, v int not null, filler text not null);
insert into small_a select i, i % 7, repeat('a', 80) from generate_series(1, 20000) i;
insert into small_b select i, i % 5, repeat('b', 80) from generate_series(1, 20000) i;
vacuum analyze small_a, small_b;

-- Runs the joins up to these ids, in turn; returns for each whether it ran a BatchHashJoin. Values of `v` are from
-- 0 to 6: a condition on it changes the pattern, not the rows.
create function joins_in_batches(condition text, variadic ids int[]) returns boolean[] language plpgsql as $$
declare
  result boolean[] := '{}';
  before bigint;
  found bigint;
  id int;
begin
  foreach id in array ids loop
    select coalesce(sum(uses), 0) from ccopt.ccopt_stats where node = 'BatchHashJoin' into before;
    execute format('select count(b.v) from small_a a join small_b b using (id) where id <= %s and %s', id, condition)
      into found;
    if found <> id then raise 'found % rows of %', found, id; end if;
    select result || (coalesce(sum(uses), 0) > before) from ccopt.ccopt_stats where node = 'BatchHashJoin' into result;
  end loop;
  return result;
end $$;

-- Seven small joins are too few.
select joins_in_batches('a.v >= 0', 1, 2, 3, 1, 2, 3, 1, 20000);
-- After eight, the first large one runs by core's plan, later ones in batches.
select joins_in_batches('a.v > -1', 1, 2, 3, 1, 2, 3, 1, 2, 20000, 20000);
-- Small joins do not change that.
select joins_in_batches('a.v > -1', 1, 1, 1, 1, 1, 1, 1, 1, 1, 20000);
-- Other conditions are another pattern.
select joins_in_batches('a.v >= 0 and b.v >= 0', 1, 2, 3, 1, 2, 3, 1, 2);
select joins_in_batches('a.v >= 0 and b.v < 9', 20000);
-- EXPLAIN shows what large joins get.
select joins_in_batches('a.v < 9', 1, 2, 3, 1, 2, 3, 1, 2);
explain (costs off) select count(b.v) from small_a a join small_b b using (id) where id <= 20000 and a.v < 9;

-- A plan that was made for one execution does not stay in the plan cache.
prepare small_join(int) as
  select count(b.v) from small_a a join small_b b using (id) where id <= $1 and b.v <= 9;
create function batch_joins() returns bigint language sql as
  $$ select coalesce(sum(uses), 0)::bigint from ccopt.ccopt_stats where node = 'BatchHashJoin' $$;
set plan_cache_mode = force_custom_plan;
\pset tuples_only on
execute small_join(1);
execute small_join(1);
execute small_join(1);
execute small_join(1);
execute small_join(1);
execute small_join(1);
execute small_join(1);
execute small_join(1);
\pset tuples_only off
set plan_cache_mode = force_generic_plan;
select batch_joins() as before \gset
execute small_join(20000);
select batch_joins() - :before as batch_joins;
select pg_current_xact_id() is not null as transaction_ends;
execute small_join(20000);
select batch_joins() - :before as batch_joins;

deallocate small_join;
drop function joins_in_batches, batch_joins;
drop table small_a, small_b;
