package daemon

// found are histories that violated a promise when they were found, shrunk. Their events name
// the parts that they are about, so that they stay the same when others are drawn; their seeds
// still draw the order in which forsd's work is done. site is what settingsOf drew.
var found = []struct {
	what    string
	seed    uint64
	fabric  string
	site    string
	history string
}{
	{"while its disk was read-only, forsd was killed, and after a restart the plan of a rollback was handed out whose number was below the last", 8027, "6x6", "plugin",
		"rollback:1185071101221399699:0s disk:5366852910885281506:997ms pull:3500699860977767675:0s:Leaf002/9-Spine002/3 kill:11305840401301570172:615ms"},
	{"a spine came back, no plan without a drained cable held on the tables, and the tables took the cable from the plan in force", 3016, "6x6", "traps",
		"switch:10823925062084719056:0s:Leaf001 pull:3448488566668588619:68ms:Leaf000/11-Spine004/1,Leaf004/9-Spine002/5 plug:3998728484721363463:3.17s:Leaf004/9-Spine002/5 " +
			"slow:9076391989657550694:0s:Leaf005/10-Spine003/6 switch:6814987924601095221:1.003s:Leaf001 pull:17641788463662029689:2.351s:Leaf000/9-Spine002/1,Leaf003/11-Spine004/4,Leaf001/11-Spine004/2 " +
			"switch:5215267083201687082:19.761ms:Leaf003 opensm:9823083636525665579:6.691ms drain:11979247726317665048:0s:Leaf004/12-Spine005/5"},
	{"tables moved a base LID that the plan in force used, which was verified on tables without the entries of the plan for base LIDs", 8048, "6x6", "traps",
		"pull:73471294915744437:3.808ms:Leaf004/7-Spine000/5,Leaf004/10-Spine003/5,Leaf001/9-Spine002/2 pull:11275673624170403308:3.418s:Leaf005/8-Spine001/6 " +
			"pull:8916991020301583277:8.52ms:Leaf004/11-Spine004/5 plug:17409439499103054797:155ms:Leaf004/11-Spine004/5 pull:4555024385736712118:0s:Leaf002/8-Spine001/3 " +
			"pull:17676585726658777341:10.597ms:Leaf000/11-Spine004/1 pull:12107178435441381757:11ms:Leaf001/7-Spine000/2,Leaf005/12-Spine005/6,Leaf005/7-Spine000/6 " +
			"slow:2219023834404209371:550ms:Leaf003/11-Spine004/4 plug:2205842191505041783:35ms:Leaf005/12-Spine005/6,Leaf005/8-Spine001/6 drain:15720140263128661504:0s:Leaf001 " +
			"pull:13993615268412998432:0s:Leaf005/11-Spine004/6 host:18310525130007140386:3.81s:Hca0011"},
	{"a follower whose disk was read-only was killed, and after a restart the plan was handed out before the last that it had followed", 600061, "6x6", "pair plugin traps",
		"switch:8095761414261769227:10ms:Spine001 flap:4984460401888840507:0s:Leaf001/7-Spine000/2 pull:15964347804740240022:157ms:Leaf002/12-Spine005/3 " +
			"plug:14726422765485400675:188ms:Leaf002/12-Spine005/3 drain:18396035337428644605:13.638ms:Leaf004/12-Spine005/5 " +
			"pull:18002045399748742290:654µs:Leaf004/7-Spine000/5 pull:9985051967870928106:14.822ms:Leaf002/11-Spine004/3 disk:5286167158405634585:242ms " +
			"kill:1687262060202027505:297ms"},
	{"a subnet manager on an island of one host, the master there, had its forsd lead in doubt, and the one of the fabric yielded", 900013, "6x6", "pair plugin traps",
		"switch:14396230586847829973:0s:Leaf005 rest:16934294713574743490:3.88s"},
	{"a leader whose disk was read-only was killed, the other forsd had not heard of its last plan, and after a restart it led with the one before", 600029, "6x6", "pair plugin traps",
		"disk:13578438426529412225:946ms host:16752995811470882103:10.154ms:Hca0030 apart:1044571603576002738:9.731ms kill:13859317489990652853:270ms"},
	{"a job's host came back to a leaf without lanes of the job's, which got these after its plan had failed, and stayed without one", 7100269, "4x4", "pair plugin traps",
		"reload:12714928669314420275:0s host:4118514908154783472:153ms:Hca0011 rest:993411737467747616:67ms job:14423980314308787480:0s"},
	{"a spine reported its cable down, tables left no way to the spine, and the cable stayed lost though its other end was active", 7200492, "4x4", "counts traps",
		"pull:3928259541122875078:0s:Leaf002/8-Spine003/3,Leaf003/8-Spine003/4 flap:1790035881605997683:13.109ms:Leaf001/7-Spine002/2 " +
			"plug:14173380178994396203:14.09ms:Leaf001/7-Spine002/2 pull:15374214414400051070:19.465ms:Leaf001/8-Spine003/2,Leaf000/8-Spine003/1 " +
			"plug:3335552469833938904:14.944ms:Leaf002/8-Spine003/3 rest:9488560223415208171:0s"},
	{"a cable was isolated by its errors, others died, and no plan was made without it", 7300125, "4x4", "counts pair plugin traps",
		"drain:7110915554868983568:0s:Leaf003/5-Spine000/4 pull:12713931137453127851:33ms:Leaf003/7-Spine002/4 " +
			"pull:15538341427077254924:98ms:Leaf003/5-Spine000/4,Leaf000/8-Spine003/1 undrain:12728917942084484491:3.929s:Leaf003/5-Spine000/4 " +
			"errors:13521844615087155516:3.369s:Leaf002/6-Spine001/3 slow:7443654240483379045:2.701ms:Leaf000/5-Spine000/1 apart:13357515875281544016:0s " +
			"undrain:6546383911641692503:22ms: rest:2657980420283057700:0s pull:4379732152163959132:10.953ms:Leaf002/7-Spine002/3 rest:13058547036699493591:599ms"},
	{"base LIDs of hosts that keep the lanes of their number were given others, and no plan held on the tables", 9500107, "4x4", "plugin",
		"slow:8417193394772901333:21ms:Leaf002/8-Spine003/3 pull:13148627692789130562:209ms:Leaf000/8-Spine003/1 reroute:13703941518083484931:193ms " +
			"hup:10543517707912964649:39ms plug:6575921814917162387:0s:Leaf000/8-Spine003/1 flap:9976189065629305326:0s:Leaf002/6-Spine001/3 rest:1560648611704254866:0s"},
	{"a part was given back while the disk was read-only, forsd was killed, and after a restart the part was safe to pull at once, though the plan in force used it", 119, "6x6", "plugin",
		"drain:59763468678350609:3.502ms:Spine001 disk:7215009371626126940:272ms " +
			"undrain:7790308124418304801:0s:Spine001 sync:3201091636310930975:2.011s kill:10676077594530078800:0s"},
	{"both of two halves lacked most hosts, and the forsd of the smaller one went on leading when they were joined, though it had no fabric to plan for", 9900397, "3x3", "pair plugin traps",
		"apart:13173043878986286268:9.882ms host:14605981511461325280:0s:Hca0005 switch:1896578720828837317:17.547ms:Leaf002 " +
			"host:11640054917598325202:2.438s:Hca0003 rest:9381080050840115636:117ms"},
	{"the tables read back had entries for a host that was away, the next sweep took these, and when the host came back plans counted on them", 2014, "6x6", "counts",
		"job:17389581232817559467:3.564s switch:15336550675537878255:13.074ms:Leaf002 brief:12690814248588579351:17.619ms stall:14014009839391774922:3.135s " +
			"switch:17971562185583766785:322ms:Leaf002 reroute:10751229585833050053:3.708s host:2165080122754:0s:Hca0005 rest:12633185825127855824:7.884ms"},
	{"a manager found a dead cable a second after it had died, few lanes were left in fabric and tables, and the tables came first", 30000336, "any", "",
		"disk:7798997808385232656:0s pull:5677306252395401359:4.982ms:Leaf003/6-Spine002/4,Leaf002/4-Spine000/3 " +
			"pull:15081809929628826011:0s:Leaf000/5-Spine001/1 host:4482388045358404644:178ms:Hca0008 tables:15950278014246778931:22ms " +
			"plug:13902862298700990493:55ms:Leaf003/6-Spine002/4 unjob:6283866186745735830:3.535s opensm:8657015539013261333:16.355ms " +
			"pull:6931796659441760049:0s:Leaf003/4-Spine000/4 rest:15470488048233409295:0s"},
	{"a leaf kept a drained cable alone, and it was safe to pull while tables led over it", 9, "any", "",
		"drain:3126206909433159551:1.924s:Leaf001/5-Spine001/2 plug:17523988046476575051:181ms: " +
			"strand:7096927162562056873:53ms:Leaf001/4-Spine000/2,Leaf001/6-Spine002/2 pull:9936394720292447655:86ms:Leaf002/6-Spine002/3"},
	{"OpenSM made tables without forsd, these led over a drained cable, and it was safe to pull for another sweep", 132, "any", "counts plugin traps",
		"switch:4401926648746592360:139ms:Leaf001 drain:12172045576658958976:11.782ms:Leaf003/8-Spine002/4 endure:11159220795088734897:24ms " +
			"opensm:9621249568496979887:4.929ms slow:10625633269894805333:287ms:Leaf001/9-Spine003/2"},
	{"forsd was killed twice, its second process had stored all that it had, and the third handed out a plan older than one that the first had kept in memory", 40000113, "any", "plugin",
		"clock:5929325023576206441:3.649s endure:16106882360253216721:0s unsynced:11047935455101107937:0s " +
			"pull:15184183774511126457:2.581ms:Leaf003/9-Spine003/4,Leaf001/7-Spine001/2 flap:12458612548893347181:17.971ms:Leaf001/10-Spine004/2 " +
			"drain:1997866125740552909:226ms: clock:6697222830172982443:3.034ms " +
			"plug:3919303685732662380:283ms:Leaf003/9-Spine003/4,Leaf001/10-Spine004/2,Leaf001/7-Spine001/2 unsynced:13412238963524999934:0s " +
			"lossy:10317418987555313366:470ms switch:15623393078302878176:0s:Leaf003 absent:11013648418671288961:14.233ms clock:6410319780218656026:157ms " +
			"drain:15262333455262853947:126ms:Leaf003/7-Spine001/4 undrain:8691815598407409108:248ms:Leaf003/7-Spine001/4 stop:5519206289131755211:185ms"},
	{"planning was given up for a newer fabric that had gone when the answer came, which counted as if no plan held, and the tables came first", 41000017, "any", "plugin traps",
		"job:2144230112869184659:13.627ms pull:10254408986160988609:952µs:Leaf002/5-Spine001/3 host:4726621975392151848:3.759ms:Hca0010 " +
			"opensm:17079872055256703427:18.338ms stall:14438171893846461938:1.545s pull:194145032712199822:7.029ms: late:3268794682992673569:2.651s " +
			"pull:2253011501494730097:0s:Leaf001/4-Spine000/2 pull:7963204265817549321:7.102ms: reroute:12718617588318141532:0s rest:6050300674045370635:1.673s"},
	{"a leader whose disk was full was stopped, the other forsd took over with an older plan though the stopped one told it its last number, and the clients of both got that plan", 218, "any", "counts pair plugin traps",
		"flap:9182217932647425839:0s:Leaf000/8-Spine003/1 disk:1957369097546361491:3.288ms handover:7640403025027453412:163ms handover:15134597540549630821:2.316ms " +
			"absent:2268224467282954110:130ms stop:1347712765450372641:3ms handover:543090134122114530:637ms switch:4286690021116937359:5.327ms:Leaf001 stop:16466679642052805266:921ms"},
	{"the same, and the follower heard that the other forsd led before it heard which numbers that one had passed over", 40017, "any", "counts pair plugin traps",
		"pull:4593300029678817035:3.776s:Leaf001/12-Spine005/2 disk:7492161940649994533:9.395ms flap:1231868860020834074:2.174s:Leaf003/8-Spine001/4 " +
			"switch:14883347748366803936:284ms:Leaf004 plug:3423493668688085122:6.32ms:Leaf003/8-Spine001/4 opensm:4891854784799559037:5.994ms opensm:12608339757573954418:0s " +
			"stop:958365918884694951:19.799ms strand:679444890806446749:249ms: pull:6127355735246473865:1.189s:Leaf005/10-Spine003/6,Leaf001/7-Spine000/2 " +
			"absent:3142866133407015497:11ms rest:16054483446287369617:0s"},
	{"a leader that had lost contact and could not store its plan was killed, and followed the other forsd, which led in doubt, with the plan before", 42000398, "any", "pair plugin",
		"job:4862794002067195233:5.281ms handover:17031189927220522542:141ms pull:14049362898111223983:1.318ms:Leaf001/7-Spine001/2 stall:11563717006057304127:18.021ms " +
			"pull:15432579046660462494:241ms:Leaf002/8-Spine002/3 deaf:9579077341750042089:54ms switch:1892530062473619515:11.398ms:Leaf000 " +
			"pull:9863656400764044831:122ms:Leaf000/9-Spine003/1,Leaf000/6-Spine000/1,Leaf003/10-Spine004/4 stall:6668661858850168327:14.701ms disk:17054470189802552004:0s " +
			"switch:5443009506884328029:0s:Leaf000 reload:4921936165480187063:0s apart:10481413307780626626:3.443ms kill:10837716053174379230:230ms " +
			"handover:1840130954178322611:18.721ms"},
	{"a plan took a dead cable that the one before had left out by chance, and of whose death forsd had not heard: it was the world that was wrong", 42000948, "any", "pair plugin",
		"switch:13845300428159666005:1.619s:Mid000 flap:7043252908364113091:10ms:Mid005/3-Top002/3 pull:8002814578416977234:257ms"},
	{"OpenSM's plugin made tables of those of a forsd that had been killed, and the next forsd did not count on these: so was the world", 42000931, "any", "plugin",
		"slow:13127462262574120588:16.554ms:Leaf000/4-Spine000/1 stall:8545835188637542111:12.483ms plug:8200419192398678207:0s:Leaf000/4-Spine000/1 absent:13578512155777518837:0s " +
			"rest:12504727582856778924:375µs sync:1451503451228193053:0s pull:13885190718985872901:104ms:Leaf001/6-Spine002/2 pull:4799331313444582361:2.567s: " +
			"slow:13987298431525212580:5.511ms:Leaf002/4-Spine000/3 switch:12627568275521530089:0s:Leaf001 rest:709415495720227615:0s"},
	{"OpenSM's plugin made tables without forsd, which had read them and was having its own sent again when the plan met on them: so was the world", 42000362, "any", "plugin",
		"slow:5169146872007222221:16.759ms:Leaf004/9-Spine002/5 slow:10031960545993940207:3.427s:Leaf004/8-Spine001/5 kill:484357672850985039:0s " +
			"pull:5881306645702507189:184ms:Leaf004/7-Spine000/5,Leaf003/12-Spine005/4 drain:9463142866324331921:1.682s:Leaf004/8-Spine001/5 brief:1154037188305196709:13.131ms " +
			"slow:13456017137805258763:1.588s:Leaf002/10-Spine003/3 pull:7132763657002516122:0s:Leaf003/11-Spine004/4 reroute:7890846894721779272:3.147s " +
			"late:14609798830341571161:198ms kill:17769689908395854960:9.782ms host:15407579455769475174:0s:Hca0021 pull:10940328405654369311:10.038ms: " +
			"pull:17340364601748037435:2.901s:Leaf003/7-Spine000/4 flap:15415601759598515051:2.533s:Leaf005/11-Spine004/6 host:8321176327308801987:0s:Hca0002 " +
			"late:9670852720067943791:718ms"},
	{"OpenSM's plugin made tables of a file that had been there when OpenSM was started, and forsd did not count on these: so was the world", 60000042, "any", "plugin traps",
		"switch:12498954586181068249:4.622ms:Leaf001 switch:16837565228962106636:138µs:Leaf001 absent:99939018702555126:8.935ms " +
			"switch:5313002387282604354:0s:Leaf002 rest:17939162653370050:2.024s unplug:6662146149165991417:1.939s"},
	{"a forsd that did not lead was killed before it had refused a drain, which the world took for ordered", 60000854, "any", "pair plugin traps",
		"handover:11509793569546157134:5.242ms apart:12385287680638238295:67ms opensm:4591391291801008532:0s stall:1324980904801434604:165ms drain:7791571208860215663:0s:Spine000 " +
			"kill:17043405509991359533:4ms"},
	{"a plan was published by a forsd that was killed before it answered for it, and the world took a part for used by the plan before", 60000967, "any", "pair plugin",
		"slow:15211695794491001400:780ms:Leaf000/11-Spine004/1 plug:12110983260819254011:3.635s: undrain:9754038144655471169:3.532s: rest:11857665842813340689:1.075s " +
			"pull:16846102437104174246:18.096ms:Leaf004/7-Spine000/5 pull:1491209102222952952:7.464ms:Leaf005/11-Spine004/6 sync:16470444595205810064:1.469s " +
			"drain:6204603837514561196:0s:Leaf005/9-Spine002/6 handover:1604375926571735848:269ms plug:16166800495775912919:2.874s"},
	{"a forsd that led had refused a configuration, and when all was well only the other one was told of the next", 62000050, "6x6", "pair plugin",
		"reload:1774307341575091144:11.45ms handover:9268946713930952504:6.259ms handover:6861871544512147611:2.806s"},
}
