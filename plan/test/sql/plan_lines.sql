-- For the other tests: EXPLAIN's lines as every version from 15 to 18 writes them. 18 writes rows with two digits, and more lines.
create function public.plan_lines(query text, options text = 'costs off') returns setof text language plpgsql as $$
declare
  line text;
begin
  for line in execute format('explain (%s) %s', options, query) loop
    continue when line ~ '^ *(Buffers|Index Searches|Disabled|Storage|Planning|Window):';
    -- JSON comes as one line with line ends.
    line := regexp_replace(line, '\n *"Disabled": \w+,', '', 'g');
    return next regexp_replace(line, '(rows=|Rows": )(\d+)\.00', '\1\2', 'g');
  end loop;
end $$;
