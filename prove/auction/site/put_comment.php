<?php
// The form for a comment on a member.
require '_site.php';
$member = member();
$item = item(number('item'));
$to = number('to');
$name = nickname($to);
page('About ' . $name);
echo '<p>You bought ', esc($item['name']), '.</p><form method="post" action="store_comment.php"><input type="hidden" name="item" value="', $item['id'],
    '"><input type="hidden" name="to" value="', $to, '"><input type="hidden" name="user" value="', $member['id'],
    '"><select name="rating"><option>-5</option><option>-3</option><option>0</option><option>3</option><option>5</option></select>',
    '<textarea name="comment" maxlength="500"></textarea><button>Say it</button></form>';
done();
